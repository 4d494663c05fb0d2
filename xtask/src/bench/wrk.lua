-- Runs in every load by wrk: sends DEPTH requests back to back, and prints the totals as one line of JSON.
-- wrk ... URL -- DEPTH [FILE]: with FILE, the request that is in it, octet by octet.

init = function(arguments)
   local depth = tonumber(arguments[1])
   local file = arguments[2] and assert(io.open(arguments[2], "rb"))
   if depth > 1 or file then
      local batch = string.rep(file and file:read("*a") or wrk.format(), depth)
      -- Defined only here: wrk calls a function for each batch, but sends a constant without one.
      request = function() return batch end
   end
end

done = function(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format(
      '{"requests":%d,"bytes":%d,"microseconds":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d,',
      summary.requests, summary.bytes, summary.duration,
      errors.connect, errors.read, errors.write, errors.status, errors.timeout))
   io.write(string.format(
      '"p50":%d,"p90":%d,"p99":%d,"longest":%d}\n',
      latency:percentile(50), latency:percentile(90), latency:percentile(99), latency.max))
end
