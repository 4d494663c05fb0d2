//! The chunked transfer coding and its attacks (RFC 9112 §7.1).

use thruway_http1::{Error, Limits};

use super::{Sample, refused};

pub(crate) fn samples() -> Vec<Sample> {
    let mut samples = decoded();
    samples.extend(with_extensions());
    samples.extend(sizes_refused());
    samples.extend(line_ends_refused());
    samples.extend(extensions_refused());
    samples.extend(trailers());
    samples.extend(limits());
    samples.extend(trailer_limits());
    samples
}

const HEAD: &str = "POST / HTTP/1.1, chunked";

fn post(body: &str) -> Vec<u8> {
    format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}").into_bytes()
}

fn broken(name: &'static str, body: &str, error: Error) -> Sample {
    Sample::requests(name, post(body), &[HEAD, &refused(error)])
}

fn decoded() -> Vec<Sample> {
    let one = |name, body: &str, content: &str| {
        Sample::requests(name, post(body), &[HEAD, &format!("content {content}"), "end"])
    };
    let long = "x".repeat(0x1a2);
    vec![
        Sample::requests("no chunk but the last", post("0\r\n\r\n"), &[HEAD, "end"]),
        Sample::requests("a last chunk of many zeros", post("0000000000000000\r\n\r\n"), &[HEAD, "end"]),
        one("one chunk", "3\r\nabc\r\n0\r\n\r\n", "abc"),
        one("several chunks", "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", "abc"),
        one("leading zeros", "0003\r\nabc\r\n0\r\n\r\n", "abc"),
        one("sixteen digits", "0000000000000003\r\nabc\r\n0\r\n\r\n", "abc"),
        one(
            "hexadecimal digits of both cases",
            &format!("1a2\r\n{long}\r\n1A2\r\n{long}\r\n0\r\n\r\n"),
            &long.repeat(2),
        ),
        one("data that looks like the end", "7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", r"\r\n0\r\n\r\n"),
        Sample::requests(
            "the next request follows",
            post("1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
            &[HEAD, "content a", "end", "GET / HTTP/1.1"],
        ),
        Sample::requests(
            "two chunked requests",
            [post("1\r\na\r\n0\r\n\r\n"), post("0\r\n\r\n")].concat(),
            &[HEAD, "content a", "end", HEAD, "end"],
        ),
    ]
}

fn with_extensions() -> Vec<Sample> {
    let one = |name, extensions: &str| {
        let body = format!("1{extensions}\r\na\r\n0{extensions}\r\n\r\n");
        Sample::requests(name, post(&body), &[HEAD, "content a", "end"])
    };
    vec![
        one("an extension without a value", ";a"),
        one("an extension with a token", ";a=b"),
        one("an extension with a quoted string", r#";a="b c""#),
        one("an extension with an empty quoted string", r#";a="""#),
        one("an extension with escapes", r#";a="\"\\\b;""#),
        one("an extension with bytes above ASCII", ";a=\"é\t\""),
        one("several extensions", r#";a;b=c;d="e";f"#),
        one("whitespace around everything", " \t; a = b ;\tc\t=\t\"d\" "[..].trim_end()),
    ]
}

fn sizes_refused() -> Vec<Sample> {
    vec![
        broken("no size", "\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("only an extension", ";a\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("a letter that is no digit", "g\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("0x before the size", "0x3\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("a plus before the size", "+3\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("a minus before the size", "-3\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("a minus before 0", "-0\r\n\r\n", Error::ChunkSizeInvalid),
        broken("an underscore in the size", "1_0\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("a point in the size", "3.0\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("a comma in the size", "3,3\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("NUL in the size", "3\0\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("a space before the size", " 3\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("a tab before the size", "\t3\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("a space after the size", "3 \r\nabc\r\n", Error::ChunkExtensionInvalid),
        broken("a space in the size", "3 3\r\nabc\r\n", Error::ChunkExtensionInvalid),
        broken("an h after the size", "3h\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("digits above ASCII", "３\r\nabc\r\n", Error::ChunkSizeInvalid),
        broken("seventeen digits", "00000000000000003\r\nabc\r\n", Error::ChunkSizeOverflow),
        broken("a size one above 64 bits", "10000000000000000\r\nabc\r\n", Error::ChunkSizeOverflow),
        broken("a size that would wrap round to 3", "10000000000000003\r\nabc\r\n", Error::ChunkSizeOverflow),
        broken("digits without end", &"f".repeat(64), Error::ChunkSizeOverflow),
        broken("zeros without end", &"0".repeat(64), Error::ChunkSizeOverflow),
    ]
}

fn line_ends_refused() -> Vec<Sample> {
    let after_data =
        |name, body: &str, error| Sample::requests(name, post(body), &[HEAD, "content abc", &refused(error)]);
    vec![
        broken("LF alone after the size", "3\nabc\r\n0\r\n\r\n", Error::BareLineFeed),
        broken("CR alone after the size", "3\rabc\r\n0\r\n\r\n", Error::BareCarriageReturn),
        broken("CR CR LF after the size", "3\r\r\nabc\r\n0\r\n\r\n", Error::BareCarriageReturn),
        broken("LF alone after an extension", "3;a\nabc\r\n0\r\n\r\n", Error::BareLineFeed),
        broken("LF in an extension", "3;a\nb\r\nabc\r\n0\r\n\r\n", Error::BareLineFeed),
        broken("LF in a quoted string", "3;a=\"\n\"\r\nabc\r\n0\r\n\r\n", Error::BareLineFeed),
        broken("CR in an extension", "3;a\rb\r\nabc\r\n0\r\n\r\n", Error::BareCarriageReturn),
        broken("LF alone after the last size", "0\n\r\n", Error::BareLineFeed),
        broken("LF alone after the last chunk", "0\r\n\n", Error::BareLineFeed),
        broken("CR alone after the last chunk", "0\r\n\rx", Error::BareCarriageReturn),
        after_data("LF alone after the data", "3\r\nabc\n0\r\n\r\n", Error::BareLineFeed),
        after_data("CR alone after the data", "3\r\nabc\r0\r\n\r\n", Error::ChunkDataPastSize),
        after_data("nothing after the data", "3\r\nabc0\r\n\r\n", Error::ChunkDataPastSize),
        after_data("data past the size", "3\r\nabcd\r\n0\r\n\r\n", Error::ChunkDataPastSize),
        after_data("two bytes that are not a line end", "3\r\nabcxx0\r\n\r\n", Error::ChunkDataPastSize),
        after_data("LF CR after the data", "3\r\nabc\n\r0\r\n\r\n", Error::BareLineFeed),
        after_data("an empty line after the data", "3\r\nabc\r\n\r\n0\r\n\r\n", Error::ChunkSizeInvalid),
    ]
}

fn extensions_refused() -> Vec<Sample> {
    let one = |name, extension: &str| {
        broken(name, &format!("3{extension}\r\nabc\r\n0\r\n\r\n"), Error::ChunkExtensionInvalid)
    };
    vec![
        one("a semicolon and nothing else", ";"),
        one("two semicolons", ";;a"),
        one("a semicolon at the end", ";a;"),
        one("no name", ";=b"),
        one("no value", ";a="),
        one("a space at the end", ";a "),
        one("a name of two words", ";a b"),
        one("a value of two words", ";a=b c"),
        one("two equals signs", ";a=b=c"),
        one("a name in quotes", ";\"a\""),
        one("a quote left open", ";a=\"b"),
        one("a quote closed by an escape only", r#";a="b\""#),
        one("an escape at the end", r#";a="b\"#),
        one("text after a quoted string", r#";a="b"c"#),
        one("a comma", ";a,b"),
        one("NUL", ";a\0"),
        one("NUL in a quoted string", ";a=\"\0\""),
        one("DEL in a quoted string", ";a=\"\x7f\""),
        one("bytes above ASCII", ";é"),
        one("a word without a semicolon", " a"),
    ]
}

fn trailers() -> Vec<Sample> {
    let trailers = |name, lines: &str, names: &str| {
        Sample::requests(name, post(&format!("0\r\n{lines}\r\n")), &[HEAD, &format!("end with {names}")])
    };
    let refused_lines = |name, lines: &str, error| broken(name, &format!("0\r\n{lines}\r\n"), error);
    let mut samples = vec![
        trailers("one trailer", "A: b\r\n", "A"),
        trailers("two trailers", "A: b\r\nC:d\r\n", "A, C"),
        trailers("a trailer that only looks forbidden", "Hosts: a\r\n", "Hosts"),
        Sample::requests(
            "trailers of one request are not those of the next",
            [post("0\r\nA: b\r\n\r\n"), post("1\r\na\r\n0\r\n\r\n")].concat(),
            &[HEAD, "end with A", HEAD, "content a", "end"],
        ),
        refused_lines("a trailer without a colon", "A\r\n", Error::FieldNameInvalid),
        refused_lines("a trailer with a space before the colon", "A : b\r\n", Error::WhitespaceBeforeColon),
        refused_lines("a trailer that is folded", "A: b\r\n c\r\n", Error::LineFolding),
        refused_lines("a trailer with NUL", "A: \0\r\n", Error::FieldValueInvalid),
        refused_lines("a trailer with LF alone", "A: b\n", Error::BareLineFeed),
        refused_lines(
            "a request for a trailer",
            "GET / HTTP/1.1\r\nHost: a\r\n",
            Error::WhitespaceBeforeColon,
        ),
    ];
    for lines in [
        "Connection: close\r\n",
        "Content-Length: 5\r\n",
        "Expect: 100-continue\r\n",
        "HOST: a\r\n",
        "TE: trailers\r\n",
        "Trailer: A\r\n",
        "transfer-encoding: chunked\r\n",
        "A: b\r\nUpgrade: c\r\n",
    ] {
        samples.push(refused_lines("a trailer that frames or routes", lines, Error::TrailerFieldForbidden));
    }
    samples
}

fn limits() -> Vec<Sample> {
    let extension = |bytes: usize| format!("1;{}\r\na\r\n0\r\n\r\n", "b".repeat(bytes - 1));
    let eight = |limits: &mut Limits| limits.chunk_extension_bytes = 8;
    // Each line has 24 bytes: 18 are allowed for each line, the chunk is too small for one more, and 6 are
    // too many.
    let flood = |lines: usize| format!("{}0\r\n\r\n", "0000000000000001;aaaaa\r\nb\r\n".repeat(lines));
    // Each line has 50 bytes: 18, and 1 for each 8 of its 256 bytes of data.
    let justified = format!("100;{}\r\n{}\r\n", "b".repeat(44), "c".repeat(256)).repeat(9);
    let after = |content: &str, error| [HEAD.to_owned(), format!("content {content}"), refused(error)];
    let accepted = |content: &str| [HEAD.to_owned(), format!("content {content}"), "end".to_owned()];
    let sample = |name, body: String, transcript: [String; 3]| {
        Sample::requests(name, post(&body), &transcript.each_ref().map(String::as_str))
    };
    vec![
        sample("an extension at its limit", extension(8), accepted("a")).with(eight),
        broken("an extension above its limit", &extension(9), Error::ChunkExtensionsTooLong).with(eight),
        broken(
            "an extension above its limit that has not ended",
            "1;bbbbbbbbb",
            Error::ChunkExtensionsTooLong,
        )
        .with(eight),
        broken(
            "an extension that is broken right after its limit",
            "1;bbbbbbb\0\r\n",
            Error::ChunkExtensionInvalid,
        )
        .with(eight),
        broken(
            "whitespace above the limit of extensions",
            "1          ;a\r\n",
            Error::ChunkExtensionsTooLong,
        )
        .with(eight),
        sample(
            "a chunk without extension where none is allowed",
            "1\r\na\r\n0\r\n\r\n".into(),
            accepted("a"),
        )
        .with(|limits| limits.chunk_extension_bytes = 0),
        sample(
            "sixteen digits where no extension is allowed",
            format!("{}0\r\n\r\n", "0000000000000001\r\na\r\n".repeat(9)),
            accepted("aaaaaaaaa"),
        )
        .with(|limits| limits.chunk_extension_bytes = 0),
        broken("an extension with a limit of 0 bytes", "1;\r\na\r\n0\r\n\r\n", Error::ChunkExtensionsTooLong)
            .with(|limits| limits.chunk_extension_bytes = 0),
        sample(
            "extensions that are no more than their data justifies",
            format!("{justified}0\r\n\r\n"),
            accepted(&"c".repeat(256 * 9)),
        )
        .with(|limits| limits.chunk_extension_bytes = 45),
        sample("as many extensions as allowed", flood(4), accepted("bbbb"))
            .with(|limits| limits.chunk_extension_bytes = 24),
        sample("a flood of extensions", flood(5), after("bbbb", Error::ChunkExtensionsTooLong))
            .with(|limits| limits.chunk_extension_bytes = 24),
        Sample::requests(
            "a flood of tiny chunks is bounded by the content",
            post(&"1\r\na\r\n".repeat(10)),
            &[HEAD, "content aaaaa", &refused(Error::ContentTooLarge)],
        )
        .with(|limits| limits.content_bytes = 5),
    ]
}

fn trailer_limits() -> Vec<Sample> {
    let trailer = |bytes: usize| format!("0\r\nA:{}\r\n\r\n", "b".repeat(bytes - 6));
    let sixteen = |limits: &mut Limits| limits.trailer_section_bytes = 16;
    vec![
        Sample::requests("a trailer section at its limit", post(&trailer(16)), &[HEAD, "end with A"])
            .with(sixteen),
        broken("a trailer section above its limit", &trailer(17), Error::TrailerSectionTooLarge)
            .with(sixteen),
        broken("a trailer without end", &format!("0\r\n{}", "A".repeat(20)), Error::TrailerSectionTooLarge)
            .with(sixteen),
        broken("too many trailers", "0\r\nA:b\r\nA:b\r\nA:b\r\nA:b\r\n\r\n", Error::FieldLinesTooMany)
            .with(|limits| limits.field_lines = 3),
    ]
}
