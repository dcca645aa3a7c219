use super::*;

const LIMITS: XmlLimits = XmlLimits::SOAP;

fn parse(source: &str) -> Document {
    Document::parse(source.as_bytes(), &LIMITS).unwrap_or_else(|error| panic!("{error}: {source}"))
}

fn refusal(source: &[u8]) -> XmlError {
    match Document::parse(source, &LIMITS) {
        Ok(_) => panic!("accepted: {}", String::from_utf8_lossy(source)),
        Err(error) => error,
    }
}

fn text(source: &str) -> String {
    let document = parse(source);
    document.text(document.root()).expect("text only").into_owned()
}

/// What quick-xml lets through by itself, and the rule that refuses it here.
const BROKEN: &[(&str, Violation)] = &[
    ("", Violation::NoRoot),
    (" \n", Violation::NoRoot),
    ("<!--x-->", Violation::NoRoot),
    ("<?xml version='1.0'?>", Violation::NoRoot),
    ("<a></a><b/>", Violation::SecondRoot),
    ("<a/><a/>", Violation::SecondRoot),
    ("x<a/>", Violation::TextOutsideRoot),
    ("<a/>x", Violation::TextOutsideRoot),
    ("<a/>&#32;", Violation::TextOutsideRoot),
    ("<a/><![CDATA[]]>", Violation::TextOutsideRoot),
    ("<![CDATA[ ]]><a/>", Violation::TextOutsideRoot),
    ("\u{FEFF}\u{FEFF}<a/>", Violation::TextOutsideRoot),
    ("<a/>\u{A0}", Violation::TextOutsideRoot),
    ("<a>]]></a>", Violation::CdataEnd),
    ("<a>x]]]>y</a>", Violation::CdataEnd),
    ("<a b='<'/>", Violation::LessThanInAttribute),
    ("<a b='x<y'/>", Violation::LessThanInAttribute),
    ("<a>\u{1}</a>", Violation::Character),
    ("<a>\0</a>", Violation::Character),
    ("<a b='\u{B}'/>", Violation::Character),
    ("<a>\u{FFFE}</a>", Violation::Character),
    ("<a>\u{FFFF}</a>", Violation::Character),
    (" <?xml version='1.0'?><a/>", Violation::DeclarationPlace),
    ("<a><?xml version='1.0'?></a>", Violation::DeclarationPlace),
    ("<!--x--><?xml version='1.0'?><a/>", Violation::DeclarationPlace),
    ("<?xml?><a/>", Violation::Declaration),
    ("<?xml version='1.1'?><a/>", Violation::Declaration),
    ("<?xml version='1.'?><a/>", Violation::Declaration),
    ("<?xml encoding='UTF-8'?><a/>", Violation::Declaration),
    ("<?xml version='1.0' standalone='maybe'?><a/>", Violation::Declaration),
    ("<?xml version='1.0' standalone='yes' encoding='UTF-8'?><a/>", Violation::Declaration),
    ("<?xml version='1.0' other='yes'?><a/>", Violation::Declaration),
    ("<?xml version='1.0'encoding='UTF-8'?><a/>", Violation::Declaration),
    ("<?xml version='1.0' encoding=' UTF-8'?><a/>", Violation::Declaration),
    ("<1a/>", Violation::Name),
    ("<a:b:c xmlns:a='urn:a'/>", Violation::Name),
    ("<:/>", Violation::Name),
    ("<:a/>", Violation::Name),
    ("<a:/>", Violation::Name),
    ("< a/>", Violation::Name),
    ("<a/ >", Violation::Name),
    ("<a\u{A0}b='c'/>", Violation::Name),
    ("<a :b='c'/>", Violation::Name),
    ("<a b:='c'/>", Violation::Name),
    ("<a 1b='c'/>", Violation::Name),
    ("<a xmlns:='urn:a'/>", Violation::Name),
    ("<a ='c'/>", Violation::Name),
    ("<a>", Violation::Unclosed),
    ("<a><b></b>", Violation::Unclosed),
    ("<a", Violation::Unclosed),
    ("<a b='c>", Violation::Unclosed),
    ("<a/><!--", Violation::Unclosed),
    ("<a/><!-->", Violation::Unclosed),
    ("<a/><!--->", Violation::Unclosed),
    ("<a/><?b", Violation::Unclosed),
    ("<a><![CDATA[x]]", Violation::Unclosed),
    ("<a></b>", Violation::EndTag),
    ("<a></a ></a>", Violation::EndTag),
    ("</a>", Violation::EndTag),
    ("<a></ a>", Violation::EndTag),
    ("<a></a b='c'>", Violation::EndTag),
    ("<a>&nope;</a>", Violation::Reference),
    ("<a>&nbsp;</a>", Violation::Reference),
    ("<a>&;</a>", Violation::Reference),
    ("<a>&</a>", Violation::Reference),
    ("<a>& </a>", Violation::Reference),
    ("<a>&#;</a>", Violation::Reference),
    ("<a>&#x;</a>", Violation::Reference),
    ("<a>&#0;</a>", Violation::Reference),
    ("<a>&#x1;</a>", Violation::Reference),
    ("<a>&#xFFFE;</a>", Violation::Reference),
    ("<a>&#xD800;</a>", Violation::Reference),
    ("<a>&#x110000;</a>", Violation::Reference),
    ("<a>&#4294967361;</a>", Violation::Reference),
    ("<a>&#X41;</a>", Violation::Reference),
    ("<a>&#+65;</a>", Violation::Reference),
    ("<a b='&nope;'/>", Violation::Reference),
    ("<a b='&#0;'/>", Violation::Reference),
    ("<a b='&'/>", Violation::Reference),
    ("<a b='&lt'/>", Violation::Reference),
    ("<a b='c'd='e'/>", Violation::AttributeSpace),
    ("<a b/>", Violation::AttributeSyntax),
    ("<a b=c/>", Violation::AttributeSyntax),
    ("<a b=/>", Violation::AttributeSyntax),
    ("<a b 'c'/>", Violation::AttributeSyntax),
    ("<a/b='c'>", Violation::Name),
    ("<a b='c' b='d'/>", Violation::DuplicateAttribute),
    ("<a xmlns='urn:a' xmlns='urn:a'/>", Violation::DuplicateAttribute),
    ("<a xmlns:p='urn:a' xmlns:p='urn:b'/>", Violation::DuplicateAttribute),
    ("<a xmlns:p='urn:a' xmlns:q='urn:a' p:b='' q:b=''/>", Violation::DuplicateAttribute),
    ("<p:a/>", Violation::UnboundPrefix),
    ("<a p:b='c'/>", Violation::UnboundPrefix),
    ("<a><b xmlns:p='urn:p'/><p:c/></a>", Violation::UnboundPrefix),
    ("<a xmlns:p=''/>", Violation::PrefixUndeclared),
    ("<a xmlns:xml='urn:a'/>", Violation::ReservedPrefix),
    ("<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>", Violation::ReservedPrefix),
    ("<a xmlns='http://www.w3.org/XML/1998/namespace'/>", Violation::ReservedPrefix),
    ("<a xmlns:xmlns='urn:a'/>", Violation::ReservedPrefix),
    ("<a xmlns:p='http://www.w3.org/2000/xmlns/'/>", Violation::ReservedPrefix),
    ("<a xmlns='http://www.w3.org/2000/xmlns/'/>", Violation::ReservedPrefix),
    ("<xmlns:a/>", Violation::ReservedPrefix),
    ("<a xmlns='b'/>", Violation::NamespaceName),
    ("<a xmlns:p='../b'/>", Violation::NamespaceName),
    ("<a xmlns:p='//host/b'/>", Violation::NamespaceName),
    ("<a xmlns:p='1urn:b'/>", Violation::NamespaceName),
    ("<a xmlns:p='urn:'/>", Violation::NamespaceName),
    ("<a xmlns:p='urn:a&amp;b'/>", Violation::NamespaceName),
    ("<a xmlns:p='urn:a b'/>", Violation::NamespaceName),
    ("<a xmlns:p='urn:é'/>", Violation::NamespaceName),
    ("<a xmlns:p='urn:a[b]'/>", Violation::NamespaceName),
    ("<a xmlns:p='urn:a#b#c'/>", Violation::NamespaceName),
    ("<a xmlns:p='urn:a%2'/>", Violation::NamespaceName),
    ("<a xmlns:p='http://host:port/'/>", Violation::NamespaceName),
    ("<a xmlns:p='http:///path'/>", Violation::NamespaceName),
    ("<a><?xML b?></a>", Violation::ProcessingInstruction),
    ("<a><?b:c d?></a>", Violation::ProcessingInstruction),
    ("<a><? b?></a>", Violation::ProcessingInstruction),
    ("<a><??></a>", Violation::ProcessingInstruction),
    ("<a><?b\"c\"?></a>", Violation::ProcessingInstruction),
    ("<a><!-- -- --></a>", Violation::Comment),
    ("<a><!-- ---></a>", Violation::Comment),
    ("<a><!b></a>", Violation::Markup),
    ("<a><!></a>", Violation::Markup),
];

#[test]
fn every_broken_rule_is_refused_by_name() {
    for &(source, rule) in BROKEN {
        match refusal(source.as_bytes()) {
            XmlError::Malformed { rule: found, .. } => assert_eq!(found, rule, "{source}"),
            other => panic!("{other}: {source}"),
        }
    }
}

#[test]
fn a_doctype_is_refused_whatever_its_shape() {
    for source in [
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
        "<!DOCTYPE a",
        "<!DOCTYPE>",
        "<a><!DOCTYPE a></a>",
    ] {
        assert_eq!(refusal(source.as_bytes()), XmlError::Doctype, "{source}");
    }
}

#[test]
fn what_is_unusual_but_right_is_taken() {
    for source in [
        "<a>]]</a>",
        "<a>]]&gt;</a>",
        "<a>]]<![CDATA[>]]>]]</a>",
        "<a b='>'/>",
        "<a\n\t b = '\"' \r\n c=\"'\" />",
        "<a></a\n>",
        "<xml:a xml:b='c'/>",
        "<a xmlns:xml='http://www.w3.org/XML/1998/namespace'/>",
        "<xmla/>",
        "<é·/>",
        "<?xml version=\"1.0\" encoding='utf-8' standalone=\"no\" ?>\n<!--x--><?y?><a/>\n<?z z?><!--x-->\n",
        "<?xml-stylesheet href='x'?><a/>",
        "<a><!--->--></a>",
        "<a><!-- - - --></a>",
        "<a><?b ? > ?></a>",
        "<a b='c' B='c'/>",
        "<a xmlns='urn:a'><b xmlns=''/></a>",
        "<a xmlns='urn:a' xmlns:p='urn:a' b='' p:b=''/>",
        "<a>&#x0000000000000041;&#000000000065;</a>",
        "<a xmlns='http://me@host:80/?q=%C3%A9#x?/'/>",
        "\u{FEFF}<a/>",
        "<a>\u{FEFF}\u{FFFD}\u{85}\u{2028}\u{10FFFF}</a>",
    ] {
        parse(source);
    }
}

#[test]
fn text_is_whole_whatever_interrupts_it() {
    assert_eq!(text("<a>x<!--y-->z</a>"), "xz");
    assert_eq!(text("<a>x<?y?>z</a>"), "xz");
    assert_eq!(text("<a>x&amp;<![CDATA[<y>]]>&#x7A;z</a>"), "x&<y>zz");
    assert_eq!(text("<a></a>"), "");
    assert_eq!(text("<a/>"), "");
    assert_eq!(text("<a><![CDATA[]]></a>"), "");
    let document = parse("<a>x<b/></a>");
    assert_eq!(document.text(document.root()), None);
}

#[test]
fn adjacent_pieces_of_text_are_one_node() {
    let document = parse("<a b='&lt;'>x&amp;y<![CDATA[z]]>\r\n<b/>&lt;<c>1</c>2</a>");
    let texts: Vec<_> = document
        .descendants(document.root())
        .filter(|&node| document.kind(node) == NodeKind::Text)
        .map(|node| document.raw_text(node))
        .collect();
    assert_eq!(texts, ["x&yz\n", "<", "1", "2"]);
}

#[test]
fn line_ends_become_one_lf() {
    assert_eq!(text("<a>1\r\n2\r3\n4\r\r\n5</a>"), "1\n2\n3\n4\n\n5");
    assert_eq!(text("<a><![CDATA[1\r\n2\r]]>\n</a>"), "1\n2\n\n");
    assert_eq!(text("<a>1\r&lt;&#13;\r\n</a>"), "1\n<\r\n");
    let document = parse("<a><!--1\r\n2--><?b 1\r2?></a>");
    let texts: Vec<_> = document.children(document.root()).map(|node| document.raw_text(node)).collect();
    assert_eq!(texts, ["1\n2", "1\n2"]);
}

#[test]
fn attribute_values_are_normalised() {
    let document = parse("<a b=' 1\t2\n3\r\n4\r5  ' c='&#9;&#xA;&#13;&lt;&apos;&quot;&amp;'/>");
    assert_eq!(document.attribute(document.root(), "", "b"), Some(" 1 2 3 4 5  "));
    assert_eq!(document.attribute(document.root(), "", "c"), Some("\t\n\r<'\"&"));
}

#[test]
fn names_keep_prefix_and_namespace() {
    let document =
        parse("<p:a q:b='1' b='2' xmlns:p='urn:p' xmlns:q='urn:q'><c xmlns='urn:c'><d xmlns=''/></c></p:a>");
    let root = document.root();
    assert!(document.is(root, "urn:p", "a"));
    assert_eq!(document.prefix(root), "p");
    assert_eq!(document.attribute(root, "urn:q", "b"), Some("1"));
    assert_eq!(document.attribute(root, "", "b"), Some("2"));
    assert_eq!(document.attributes(root).len(), 2);
    assert_eq!(document.declarations(root).map(|d| d.prefix).collect::<Vec<_>>(), ["p", "q"]);
    let inner: Vec<_> = document.descendants(root).map(|node| document.namespace(node)).collect();
    assert_eq!(inner, ["urn:p", "urn:c", ""]);
}

#[test]
fn a_prefix_is_bound_where_it_is_in_scope() {
    let document = parse("<a xmlns:p='urn:1' xmlns='urn:d'><b xmlns:p='urn:2' xmlns=''/></a>");
    let inner = document.elements(document.root()).next().expect("b");
    assert_eq!(document.prefix_binding(document.root(), "p"), Some("urn:1"));
    assert_eq!(document.prefix_binding(inner, "p"), Some("urn:2"));
    assert_eq!(document.prefix_binding(document.root(), ""), Some("urn:d"));
    assert_eq!(document.prefix_binding(inner, ""), None);
    assert_eq!(document.prefix_binding(inner, "q"), None);
    assert_eq!(document.prefix_binding(inner, "xml"), Some(XML_NAMESPACE));
}

#[test]
fn the_tree_is_walked_in_document_order() {
    let document = parse("<!--0--><a>1<b><c/></b><?d?><e/></a><?f?>");
    let names = |nodes: &mut dyn Iterator<Item = NodeId>| -> Vec<String> {
        nodes.map(|node| format!("{}{}", document.local_name(node), document.raw_text(node))).collect()
    };
    assert_eq!(names(&mut document.children(document.document())), ["0", "a", "f"]);
    assert_eq!(names(&mut document.children(document.root())), ["1", "b", "d", "e"]);
    assert_eq!(names(&mut document.elements(document.root())), ["b", "e"]);
    assert_eq!(names(&mut document.descendants(document.root())), ["a", "1", "b", "c", "d", "e"]);
    assert_eq!(document.parent(document.root()), Some(document.document()));
    assert_eq!(document.parent(document.document()), None);
}

#[test]
fn a_node_of_another_document_is_nothing() {
    let large = parse("<a><b/><c/><d/></a>");
    let small = parse("<a/>");
    let last = large.descendants(large.root()).last().expect("d");
    assert!(!small.is(last, "", "d"));
    assert_eq!(small.children(last).count() + small.attributes(last).count() + small.raw_text(last).len(), 0);
}

fn nested(depth: usize) -> String {
    "<a>".repeat(depth) + &"</a>".repeat(depth)
}

fn limit(source: &str) -> Option<LimitKind> {
    match Document::parse(source.as_bytes(), &LIMITS) {
        Ok(_) => None,
        Err(XmlError::Limit { kind, .. }) => Some(kind),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn each_limit_holds_at_the_limit_and_not_one_beyond() {
    assert_eq!(limit(&nested(64)), None);
    assert_eq!(limit(&nested(65)), Some(LimitKind::Depth));
    let attributes = |count: usize| {
        let list: String = (0..count).map(|n| format!(" a{n}=''")).collect();
        format!("<a xmlns='urn:a'{list}/>")
    };
    assert_eq!(limit(&attributes(63)), None);
    assert_eq!(limit(&attributes(64)), Some(LimitKind::Attributes));
    let nodes = |count: usize| format!("<a>{}</a>", "<b/>".repeat(count - 1));
    assert_eq!(limit(&nodes(65_536)), None);
    assert_eq!(limit(&nodes(65_537)), Some(LimitKind::Nodes));
    let bytes = |count: usize| format!("<a>{}</a>", "x".repeat(count - 7));
    assert_eq!(limit(&bytes(1 << 20)), None);
    assert_eq!(limit(&bytes((1 << 20) + 1)), Some(LimitKind::Bytes));
}

#[test]
fn namespaces_are_limited_in_the_document_and_in_scope() {
    let different = |count: usize| {
        let list: String = (0..count).map(|n| format!("<b xmlns='urn:{n}'/>")).collect();
        format!("<a>{list}</a>")
    };
    assert_eq!(limit(&different(256)), None);
    assert_eq!(limit(&different(257)), Some(LimitKind::Namespaces));
    let in_scope = |count: usize| {
        let levels: String = (0..count / 32)
            .map(|_| format!("<a{}>", (0..32).map(|n| format!(" xmlns:p{n}='urn:p'")).collect::<String>()))
            .collect();
        levels + &"</a>".repeat(count / 32)
    };
    assert_eq!(limit(&in_scope(256)), None);
    assert_eq!(limit(&in_scope(288)), Some(LimitKind::Namespaces));
}

#[test]
fn the_xml_declaration_is_limited() {
    let declaration = |bytes: usize| {
        let fixed = "<?xml version='1.0'?>".len();
        format!("<?xml version='1.0'{}?><a/>", " ".repeat(bytes - fixed))
    };
    assert_eq!(limit(&declaration(1024)), None);
    assert_eq!(limit(&declaration(1025)), Some(LimitKind::XmlDeclaration));
}

fn utf16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(order).collect()
}

#[test]
fn utf16_is_read_with_mark_or_declaration() {
    for order in [u16::to_be_bytes, u16::to_le_bytes] {
        for source in ["\u{FEFF}<a>é𝄞</a>", "\u{FEFF}<?xml version='1.0' encoding='UTF-16'?><a>é𝄞</a>"]
        {
            let document = Document::parse(&utf16(source, order), &LIMITS).expect("UTF-16");
            assert_eq!(document.text(document.root()).as_deref(), Some("é𝄞"));
        }
    }
    let unmarked = utf16("<?xml version='1.0' encoding='utf-16le'?><a/>", u16::to_le_bytes);
    assert_eq!(Document::parse(&unmarked, &LIMITS).expect("declared").encoding(), Encoding::Utf16Le);
}

#[test]
fn declared_latin1_and_ascii_are_read() {
    let latin = Document::parse(b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xE9\x85</a>", &LIMITS)
        .expect("Latin-1");
    assert_eq!(latin.text(latin.root()).as_deref(), Some("é\u{85}"));
    assert_eq!(latin.encoding(), Encoding::Latin1);
    let ascii =
        Document::parse(b"<?xml version='1.0' encoding='US-ASCII'?><a>e</a>", &LIMITS).expect("US-ASCII");
    assert_eq!(ascii.encoding(), Encoding::Ascii);
}

#[test]
fn an_encoding_that_bytes_and_declaration_disagree_on_is_refused() {
    let utf16_text = "<?xml version='1.0' encoding='UTF-8'?><a/>";
    let sources = [
        b"<a>\xE9</a>".to_vec(),
        b"<?xml version='1.0' encoding='US-ASCII'?><a>\xC3\xA9</a>".to_vec(),
        b"<?xml version='1.0' encoding='UTF-16'?><a/>".to_vec(),
        b"<?xml version='1.0' encoding='EBCDIC-CP-US'?><a/>".to_vec(),
        b"<?xml version='1.0' encoding='windows-1252'?><a/>".to_vec(),
        b"\xEF\xBB\xBF<?xml version='1.0' encoding='ISO-8859-1'?><a/>".to_vec(),
        utf16(&format!("\u{FEFF}{utf16_text}"), u16::to_be_bytes),
        utf16(utf16_text, u16::to_le_bytes),
        utf16("<?a?><a/>", u16::to_le_bytes),
        utf16("\u{FEFF}<?xml version='1.0' encoding='UTF-16BE'?><a/>", u16::to_le_bytes),
        [utf16("\u{FEFF}<a/>", u16::to_le_bytes), vec![b' ']].concat(),
        [utf16("\u{FEFF}<a>", u16::to_be_bytes), vec![0xD8, 0x00], utf16("</a>", u16::to_be_bytes)].concat(),
        [utf16("\u{FEFF}<a>", u16::to_be_bytes), vec![0xDC, 0x00], utf16("</a>", u16::to_be_bytes)].concat(),
    ];
    for source in sources {
        let error = refusal(&source);
        assert!(matches!(error, XmlError::Encoding(_)), "{error}: {}", String::from_utf8_lossy(&source));
    }
}

#[test]
fn utf16_without_mark_and_declaration_is_no_xml() {
    assert!(Document::parse(&utf16("<a/>", u16::to_be_bytes), &LIMITS).is_err());
}
