use super::*;
use crate::wire::xml::{Document, NodeId, XmlLimits};

fn parse(source: &str) -> Document {
    Document::parse(source.as_bytes(), &XmlLimits::SOAP).unwrap_or_else(|error| panic!("{error}: {source}"))
}

/// The first element of this local name.
fn find(document: &Document, local: &str) -> NodeId {
    document.descendants(document.root()).find(|&node| document.local_name(node) == local).expect("element")
}

fn whole(source: &str) -> String {
    let document = parse(source);
    let mut out = Vec::new();
    exclusive(&document, document.document(), &[], &mut out);
    String::from_utf8(out).expect("UTF-8")
}

fn subtree(source: &str, local: &str, prefix_list: &[&str]) -> String {
    let document = parse(source);
    let mut out = Vec::new();
    exclusive(&document, find(&document, local), prefix_list, &mut out);
    String::from_utf8(out).expect("UTF-8")
}

/// A document and its canonical form; each shows one rule.
const WHOLE: &[(&str, &str)] = &[
    // Declaration, comments and white space outside vanish; instructions are set off by one line feed.
    ("<?xml version='1.0'?>\n<!-- c -->\n<?p  a b ?> <a/>\n\n<?q?><!-- d -->", "<?p a b ?>\n<a></a>\n<?q?>"),
    ("<a>1<!-- c -->2</a>", "<a>12</a>"),
    ("<a>1<?p?>2</a>", "<a>1<?p?>2</a>"),
    ("<a/>", "<a></a>"),
    ("<a  c = '2'\n b='1' ></a >", "<a b=\"1\" c=\"2\"></a>"),
    ("<a>&lt;&gt;&amp;&quot;&apos;</a>", "<a>&lt;&gt;&amp;\"'</a>"),
    ("<a b='&lt;>&amp;&quot;&apos;'/>", "<a b=\"&lt;>&amp;&quot;'\"></a>"),
    ("<a>x\r\ny\rz&#13;&#xD;\n</a>", "<a>x\ny\nz&#xD;&#xD;\n</a>"),
    ("<a>x\r&lt;y</a>", "<a>x\n&lt;y</a>"),
    ("<a b='x\ty\nz\r\nw'/>", "<a b=\"x y z w\"></a>"),
    ("<a b='x&#9;y&#10;z&#13;w'/>", "<a b=\"x&#x9;y&#xA;z&#xD;w\"></a>"),
    ("<a><![CDATA[<x>&\r\n]]]]><![CDATA[>]]></a>", "<a>&lt;x&gt;&amp;\n]]&gt;</a>"),
    ("<a><![CDATA[]]></a>", "<a></a>"),
    ("<a><?p x\r\ny?></a>", "<a><?p x\ny?></a>"),
    ("<a>\u{A0}\u{85}\u{2028}𝄞</a>", "<a>\u{A0}\u{85}\u{2028}𝄞</a>"),
    // Declarations by prefix, then attributes by namespace name and local name.
    (
        "<a xmlns:z='urn:1' xmlns:b='urn:2' b:x='1' z:y='2' z:x='3' w='4' xml:lang='de'/>",
        "<a xmlns:b=\"urn:2\" xmlns:z=\"urn:1\" w=\"4\" xml:lang=\"de\" z:x=\"3\" z:y=\"2\" b:x=\"1\"></a>",
    ),
    // Only what is used visibly is declared, and where it is used.
    (
        "<a xmlns:p='urn:p'><b><p:c/><p:c/></b></a>",
        "<a><b><p:c xmlns:p=\"urn:p\"></p:c><p:c xmlns:p=\"urn:p\"></p:c></b></a>",
    ),
    ("<p:a xmlns:p='urn:p'><p:b xmlns:p='urn:p'/></p:a>", "<p:a xmlns:p=\"urn:p\"><p:b></p:b></p:a>"),
    (
        "<p:a xmlns:p='urn:1'><p:b xmlns:p='urn:2'><p:c xmlns:p='urn:1'/></p:b></p:a>",
        "<p:a xmlns:p=\"urn:1\"><p:b xmlns:p=\"urn:2\"><p:c xmlns:p=\"urn:1\"></p:c></p:b></p:a>",
    ),
    // The default namespace is taken away only from where it was written.
    ("<a xmlns='urn:a'><b xmlns=''/></a>", "<a xmlns=\"urn:a\"><b xmlns=\"\"></b></a>"),
    ("<p:a xmlns:p='urn:p' xmlns='urn:a'><b xmlns=''/></p:a>", "<p:a xmlns:p=\"urn:p\"><b></b></p:a>"),
    ("<a xmlns=''><b xmlns=''/></a>", "<a><b></b></a>"),
    (
        "<a xmlns='urn:a'><p:b xmlns:p='urn:p' xmlns=''><c/></p:b></a>",
        "<a xmlns=\"urn:a\"><p:b xmlns:p=\"urn:p\"><c xmlns=\"\"></c></p:b></a>",
    ),
    // An attribute without prefix uses no namespace.
    ("<p:a xmlns='urn:a' xmlns:p='urn:p' b='1'/>", "<p:a xmlns:p=\"urn:p\" b=\"1\"></p:a>"),
    (
        "<a b='1' xmlns:xml='http://www.w3.org/XML/1998/namespace' xml:space='preserve'/>",
        "<a b=\"1\" xml:space=\"preserve\"></a>",
    ),
    ("<xml:a/>", "<xml:a></xml:a>"),
    // The prefix that a peer chose stays, however odd.
    (
        "<a xmlns:mustUnderstand='urn:s' mustUnderstand:mustUnderstand='true'/>",
        "<a xmlns:mustUnderstand=\"urn:s\" mustUnderstand:mustUnderstand=\"true\"></a>",
    ),
    (
        "<p:a xmlns:p='urn:x' xmlns:q='urn:x'><q:b p:c=''/></p:a>",
        "<p:a xmlns:p=\"urn:x\"><q:b xmlns:q=\"urn:x\" p:c=\"\"></q:b></p:a>",
    ),
];

#[test]
fn whole_documents_take_their_canonical_form() {
    for &(source, expected) in WHOLE {
        assert_eq!(whole(source), expected, "{source}");
    }
}

#[test]
fn a_canonical_form_is_its_own_canonical_form() {
    for &(_, canonical) in WHOLE {
        assert_eq!(whole(canonical), canonical);
    }
}

/// The reason for exclusive canonicalization: a piece has one form wherever it stands (Exclusive C14N §2.2).
#[test]
fn a_subtree_has_one_form_in_every_envelope() {
    let piece = "<n1:item xmlns:n1='urn:b' ><n1:part/></n1:item>";
    let expected = "<n1:item xmlns:n1=\"urn:b\"><n1:part></n1:part></n1:item>";
    for envelope in [
        piece.to_owned(),
        format!("<n0:box xmlns:n0='urn:a' xmlns:n3='urn:c' xml:lang='en'>{piece}</n0:box>"),
        format!("<box xmlns='urn:d' xmlns:n1='urn:other' xml:space='preserve'>{piece}</box>"),
    ] {
        assert_eq!(subtree(&envelope, "item", &[]), expected);
    }
}

const LISTED: &str =
    "<e xmlns='urn:d' xmlns:p='urn:p' xmlns:q='urn:q'><q:f><g xmlns:p='urn:p2'><h/></g></q:f></e>";

#[test]
fn listed_prefixes_are_declared_at_the_apex_and_where_they_change() {
    assert_eq!(
        subtree(LISTED, "f", &["p", "", "unbound", "xml"]),
        "<q:f xmlns=\"urn:d\" xmlns:p=\"urn:p\" xmlns:q=\"urn:q\"><g xmlns:p=\"urn:p2\"><h></h></g></q:f>"
    );
    assert_eq!(
        subtree(LISTED, "f", &["p", "p"]),
        "<q:f xmlns:p=\"urn:p\" xmlns:q=\"urn:q\"><g xmlns=\"urn:d\" xmlns:p=\"urn:p2\"><h></h></g></q:f>"
    );
    assert_eq!(subtree(LISTED, "h", &["q"]), "<h xmlns=\"urn:d\" xmlns:q=\"urn:q\"></h>");
}

#[test]
fn a_listed_default_namespace_follows_its_undeclaration() {
    let source = "<p:e xmlns='urn:d' xmlns:p='urn:p'><p:f xmlns=''><p:g xmlns='urn:e'/></p:f></p:e>";
    assert_eq!(
        subtree(source, "e", &[""]),
        "<p:e xmlns=\"urn:d\" xmlns:p=\"urn:p\"><p:f xmlns=\"\"><p:g xmlns=\"urn:e\"></p:g></p:f></p:e>"
    );
    assert_eq!(subtree(source, "f", &[""]), "<p:f xmlns:p=\"urn:p\"><p:g xmlns=\"urn:e\"></p:g></p:f>");
}

#[test]
fn children_are_written_each_in_its_own_namespace_context() {
    let document = parse("<p:a xmlns:p='urn:p' xmlns:q='urn:q'>1<p:b/><!--c-->&lt;<?d?><p:b q:e=''/></p:a>");
    let mut out = Vec::new();
    exclusive_children(&document, document.root(), &[], &mut out);
    let expected =
        "1<p:b xmlns:p=\"urn:p\"></p:b>&lt;<?d?><p:b xmlns:p=\"urn:p\" xmlns:q=\"urn:q\" q:e=\"\"></p:b>";
    assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
    let mut out = Vec::new();
    exclusive_children(&parse("<a/>"), document.root(), &[], &mut out);
    assert_eq!(out, b"");
}

#[test]
fn a_utf16_document_is_canonicalised_in_utf8() {
    let source: Vec<u8> = "\u{FEFF}<a>é</a>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let document = Document::parse(&source, &XmlLimits::SOAP).expect("UTF-16");
    let mut out = Vec::new();
    exclusive(&document, document.document(), &[], &mut out);
    assert_eq!(out, "<a>é</a>".as_bytes());
}

#[test]
fn the_deepest_document_is_written() {
    let source = format!("{}{}", "<a>".repeat(64), "</a>".repeat(64));
    assert_eq!(whole(&source), source);
}
