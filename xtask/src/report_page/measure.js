// Writes the measurements of each frame as JSON.
addEventListener("load", () => {
  const measurements = [...document.querySelectorAll("iframe")].map((frame) => {
    const page = frame.contentDocument.documentElement;
    // Collapsed parts count too.
    page.querySelectorAll("details").forEach((details) => (details.open = true));
    const isBeyond = (element) =>
      !element.closest(".wide") && element.getBoundingClientRect().right > page.clientWidth + 1;
    const plot = (svg) => {
      const box = svg.getBoundingClientRect();
      const lines = [...svg.querySelectorAll("polyline")].filter((line) => line.points.numberOfItems > 1);
      return {
        width: box.width,
        height: box.height,
        shapes: lines.length + svg.querySelectorAll("rect").length,
        has_numbers: !/NaN|Infinity/.test(svg.outerHTML),
      };
    };
    return {
      width: page.clientWidth,
      content_width: page.scrollWidth,
      beyond: [...page.querySelectorAll("body *")].filter(isBeyond).map((element) => element.tagName),
      plots: [...page.querySelectorAll("svg")].map(plot),
      is_dark: frame.contentWindow.matchMedia("(prefers-color-scheme: dark)").matches,
    };
  });
  document.getElementById("measurements").textContent = JSON.stringify(measurements);
});
