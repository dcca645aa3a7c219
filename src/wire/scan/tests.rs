use super::*;

/// What a document is reported as, with text joined; one line an event.
fn scan_in(source: &[u8], piece: usize, limits: ScanLimits) -> Result<Vec<String>, ScanError> {
    let mut events: Vec<String> = Vec::new();
    let mut in_text = false;
    let mut on = |event: ScanEvent<'_>| {
        let follows_text = std::mem::replace(&mut in_text, matches!(event, ScanEvent::Text { .. }));
        match (events.last_mut(), event) {
            (Some(last), ScanEvent::Text { text, .. }) if follows_text => last.push_str(text),
            (_, event) => events.push(describe(event)),
        }
        Ok::<(), ScanError>(())
    };
    let mut scanner = Scanner::new(limits);
    for part in source.chunks(piece) {
        scanner.feed(part, &mut on)?;
    }
    scanner.finish(&mut on)?;
    Ok(events)
}

fn describe(event: ScanEvent<'_>) -> String {
    match event {
        ScanEvent::Start { name, attributes, declarations, in_scope, span, name_end, empty } => {
            let attributes: String = attributes
                .iter()
                .map(|a| format!(" {}|{{{}}}{}={}", a.prefix, a.namespace, a.local, a.value))
                .collect();
            let declarations: String =
                declarations.iter().map(|d| format!(" @{}={}", d.prefix, d.uri)).collect();
            let empty = if empty { " empty" } else { "" };
            let Span { start, end } = span;
            format!(
                "start {start}..{name_end}..{end} {}|{{{}}}{}{attributes}{declarations} of {}{empty}",
                name.prefix,
                name.namespace,
                name.local,
                in_scope.len()
            )
        }
        ScanEvent::End { name, span } => {
            format!("end {}..{} {}|{{{}}}{}", span.start, span.end, name.prefix, name.namespace, name.local)
        }
        ScanEvent::Text { text, span } => format!("text {}.. {text}", span.start),
        ScanEvent::Comment { text, span } => format!("comment {}..{} {text}", span.start, span.end),
        ScanEvent::ProcessingInstruction { target, data, span } => {
            format!("instruction {}..{} {target} {data}", span.start, span.end)
        }
    }
}

/// Scans in pieces of every small size and demands one result.
fn scan_bytes(source: &[u8]) -> Result<Vec<String>, ScanError> {
    let whole = scan_in(source, source.len().max(1), ScanLimits::DOCUMENT);
    for piece in 1..8 {
        let pieces = scan_in(source, piece, ScanLimits::DOCUMENT);
        match (&whole, &pieces) {
            (Ok(whole), Ok(pieces)) => assert_eq!(whole, pieces, "in pieces of {piece}"),
            (Err(_), Err(_)) => {}
            _ => panic!("{whole:?} as a whole, {pieces:?} in pieces of {piece}"),
        }
    }
    whole
}

fn scan(source: &str) -> Vec<String> {
    scan_bytes(source.as_bytes()).unwrap_or_else(|error| panic!("{error}: {source}"))
}

#[test]
fn elements_are_reported_with_names_and_places() {
    assert_eq!(
        scan("<p:a xmlns:p='urn:p' b='1&amp;2' p:c=''><d xmlns='urn:d'/></p:a >"),
        [
            "start 0..4..40 p|{urn:p}a |{}b=1&2 p|{urn:p}c= @p=urn:p of 1",
            "start 40..42..58 |{urn:d}d @=urn:d of 2 empty",
            "end 58..58 |{urn:d}d",
            "end 58..65 p|{urn:p}a",
        ]
    );
}

#[test]
fn text_is_resolved_over_every_seam() {
    assert_eq!(
        scan("<a>1\r\n2\r3é𝄞&lt;&#x41;<![CDATA[<&]]]>x]]&gt;]&gt;\r<!--c--></a>"),
        ["start 0..2..3 |{}a of 0", "text 3.. 1\n2\n3é𝄞<A<&]x]]>]>\n", "comment 53..61 c", "end 61..65 |{}a"]
    );
}

#[test]
fn cdata_sections_may_be_full_of_brackets() {
    for (content, expected) in [
        ("]", "]"),
        ("]]", "]]"),
        ("]]]]]]", "]]]]]]"),
        ("]]x]>", "]]x]>"),
        ("]\r]", "]\n]"),
        ("\r", "\n"),
        (">", ">"),
    ] {
        let events = scan(&format!("<a><![CDATA[{content}]]></a>"));
        assert_eq!(events.get(1), Some(&format!("text 12.. {expected}")), "{content:?}");
    }
    assert_eq!(scan("<a><![CDATA[]]></a>").len(), 2);
}

#[test]
fn line_ends_in_comments_and_instructions_are_one_lf() {
    assert_eq!(
        scan("<?p  1\r\n2?><a><!--1\r2--></a>"),
        ["instruction 0..11 p 1\n2", "start 11..13..14 |{}a of 0", "comment 14..24 1\n2", "end 24..28 |{}a"]
    );
}

#[test]
fn places_count_the_bytes_of_the_input() {
    let text = "\u{FEFF}<?xml version='1.0' encoding='UTF-16'?><a>é𝄞\r\n</a>";
    for order in [u16::to_be_bytes, u16::to_le_bytes] {
        let source: Vec<u8> = text.encode_utf16().flat_map(order).collect();
        let events = scan_bytes(&source).expect("UTF-16");
        assert_eq!(events, ["start 80..84..86 |{}a of 0", "text 86.. é𝄞\n", "end 96..104 |{}a"]);
    }
    let events = scan_bytes(b"<?xml version='1.0' encoding='iso-8859-1'?><a>\xE9</a>").expect("Latin-1");
    assert_eq!(events, ["start 43..45..46 |{}a of 0", "text 46.. é", "end 47..51 |{}a"]);
    assert_eq!(scan("\u{FEFF}<a/>"), ["start 3..5..7 |{}a of 0 empty", "end 7..7 |{}a"]);
}

#[test]
fn what_the_tree_refuses_is_refused() {
    for source in [
        "",
        " ",
        "<a",
        "<a>",
        "<a/><b/>",
        "x<a/>",
        "<a/>x",
        "<a>]]></a>",
        "<a>&nope;</a>",
        "<a>& </a>",
        "<a/>&lt;",
        "<a/><![CDATA[]]>",
        "<a><![CDATA[",
        "<a><![CDATX[]]></a>",
        "<!-->",
        "<!--->",
        "<a><!-- -- --></a>",
        "<?xml version='1.1'?><a/>",
        " <?xml version='1.0'?><a/>",
        "<a><?xml version='1.0'?></a>",
        "<a><?XML?></a>",
        "<!DOCTYPE a><a/>",
        "<!doctype a><a/>",
        "<p:a/>",
        "<a p:b=''/>",
        "<a b='' b=''/>",
        "<a xmlns:p=''/>",
        "<a b='<'/>",
        "<a b=''c=''/>",
        "<a></b>",
        "</a>",
        "<a>\u{1}</a>",
        "<a>\u{FFFF}</a>",
        "<xmlns:a/>",
        "<1/>",
        "<a xmlns:p='urn:x' xmlns:q='urn:x' p:b='' q:b=''/>",
        "<>",
        "</>",
        "<a><></a>",
        "<!>",
        "&lt;<a/>",
    ] {
        assert!(scan_bytes(source.as_bytes()).is_err(), "{source}");
    }
    assert!(scan_bytes(b"<a>\xE9</a>").is_err());
    assert!(scan_bytes(b"<a>\xC3").is_err());
    assert!(scan_bytes(b"<a/>\xC3").is_err());
    assert!(scan_bytes(b"<?xml version='1.0' encoding='US-ASCII'?><a>\xC3\xA9</a>").is_err());
    assert!(scan_bytes(b"<?xml version='1.0' encoding='UTF-16'?><a/>").is_err());
}

#[test]
fn a_doctype_is_named_as_such() {
    assert_eq!(scan_bytes(b"<!DOCTYPE a><a/>"), Err(ScanError::Doctype));
}

#[test]
fn namespace_names_are_taken_as_the_limits_say() {
    let source = b"<a xmlns='relative'/>";
    assert!(scan_in(source, 5, ScanLimits::DOCUMENT).is_ok());
    assert!(scan_in(source, 5, ScanLimits::CANONICAL).is_err());
}

fn limit(source: &str, limits: ScanLimits) -> Option<LimitKind> {
    let kinds: Vec<_> = [1, 7, 100_000]
        .map(|piece| match scan_in(source.as_bytes(), piece, limits) {
            Ok(_) => None,
            Err(ScanError::Limit { kind, .. }) => Some(kind),
            Err(other) => panic!("{other}"),
        })
        .into();
    assert!(kinds.iter().all(|kind| *kind == kinds[0]), "{kinds:?}");
    kinds[0]
}

const SMALL: ScanLimits = ScanLimits {
    token_bytes_max: 64,
    depth_max: 3,
    attributes_max: 2,
    namespaces_max: 2,
    namespace_names: NamespaceNames::Any,
};

#[test]
fn each_limit_holds_at_the_limit_and_not_one_beyond() {
    assert_eq!(limit("<a><a><a/></a></a>", SMALL), None);
    assert_eq!(limit("<a><a><a><a/></a></a></a>", SMALL), Some(LimitKind::Depth));
    assert_eq!(limit("<a b='' xmlns=''/>", SMALL), None);
    assert_eq!(limit("<a b='' c='' xmlns=''/>", SMALL), Some(LimitKind::Attributes));
    assert_eq!(limit("<a xmlns:p='u'><a xmlns:p='u'/><a xmlns:p='u'/></a>", SMALL), None);
    assert_eq!(limit("<a xmlns:p='u' xmlns:q='u'><a xmlns:p='u'/></a>", SMALL), Some(LimitKind::Namespaces));
}

#[test]
fn each_token_is_limited_and_text_is_not() {
    let fill = |count: usize| "x".repeat(count);
    let around: [(&str, &str); 4] =
        [("<a b='", "'/>"), ("<a><!--", "--></a>"), ("<a><?p ", "?></a>"), ("<a>&", ";</a>")];
    for (before, after) in around.into_iter().take(3) {
        let outside = before.len() - before.rfind('<').expect("token") + after.find('>').expect("token") + 1;
        assert_eq!(limit(&format!("{before}{}{after}", fill(64 - outside)), SMALL), None, "{before}");
        let beyond = format!("{before}{}{after}", fill(65 - outside));
        assert_eq!(limit(&beyond, SMALL), Some(LimitKind::Token), "{before}");
    }
    assert_eq!(limit(&format!("<a>&{};</a>", fill(64)), SMALL), Some(LimitKind::Token));
    assert_eq!(limit(&format!("<a>{0}<![CDATA[{0}]]></a>{1}", fill(1000), " ".repeat(1000)), SMALL), None);
}

#[test]
fn names_of_open_elements_are_limited_together() {
    let limits = ScanLimits { depth_max: 1000, token_bytes_max: 20_000, ..SMALL };
    let document = |last: usize| {
        let names: Vec<String> =
            [16_384; 63].iter().copied().chain([last]).map(|length| "n".repeat(length)).collect();
        let open: String = names.iter().map(|name| format!("<{name}>")).collect();
        let close: String = names.iter().rev().map(|name| format!("</{name}>")).collect();
        open + &close
    };
    let at = |last: usize| scan_in(document(last).as_bytes(), 65_536, limits).map(|events| events.len());
    assert_eq!(at(16_384), Ok(128));
    assert_eq!(
        at(16_385),
        Err(ScanError::Limit { kind: LimitKind::OpenNames, max: names::OPEN_NAMES_BYTES_MAX })
    );
}

#[test]
fn the_xml_declaration_is_limited() {
    let declaration = |bytes: usize| {
        let fixed = "<?xml version='1.0'?>".len();
        format!("<?xml version='1.0'{}?><a/>", " ".repeat(bytes - fixed))
    };
    assert_eq!(limit(&declaration(1024), ScanLimits::DOCUMENT), None);
    assert_eq!(limit(&declaration(1025), ScanLimits::DOCUMENT), Some(LimitKind::XmlDeclaration));
}

#[derive(Debug, PartialEq)]
enum Mine {
    Enough,
    Scan(ScanError),
}

impl From<ScanError> for Mine {
    fn from(error: ScanError) -> Self {
        Self::Scan(error)
    }
}

#[test]
fn an_error_of_the_receiver_stops_the_scanner_for_good() {
    let mut scanner = Scanner::new(ScanLimits::DOCUMENT);
    assert_eq!(scanner.feed(b"<a>x", &mut |_| Err(Mine::Enough)), Err(Mine::Enough));
    assert_eq!(scanner.feed(b"</a>", &mut |_| Ok(())), Err(Mine::Scan(ScanError::Abandoned)));
    assert_eq!(scanner.finish(&mut |_| Ok(())), Err(Mine::Scan(ScanError::Abandoned)));
}
