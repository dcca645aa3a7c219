//! Envelopes of every form: what is found in them, what is refused, and that the document can be had again.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;

use super::*;
use crate::wire::xml::Violation;

const HEADER: &str = "<StandardBusinessDocumentHeader><HeaderVersion>1.0</HeaderVersion>\
    <Sender><Identifier Authority='iso6523-actorid-upis'>0088:1</Identifier></Sender>\
    <Receiver><Identifier Authority='iso6523-actorid-upis'>0088:2</Identifier></Receiver>\
    <DocumentIdentification><Standard>urn:inv</Standard><TypeVersion>2.1</TypeVersion>\
    <InstanceIdentifier>i-1</InstanceIdentifier><Type>Invoice</Type>\
    <CreationDateAndTime>2026-12-01T04:00:00Z</CreationDateAndTime></DocumentIdentification>\
    <BusinessScope><Scope><Type>DOCUMENTID</Type><InstanceIdentifier>d</InstanceIdentifier>\
    <Identifier>busdox-docid-qns</Identifier></Scope><Scope><Type>COUNTRY_C1</Type>\
    <InstanceIdentifier/></Scope></BusinessScope></StandardBusinessDocumentHeader>";

fn sbd(root_attributes: &str, payload: &str) -> String {
    format!(
        "<?xml version='1.0' encoding='UTF-8'?>\n<!-- c --><StandardBusinessDocument \
         xmlns='{SBDH_NAMESPACE}'{root_attributes}>{HEADER}\n {payload}\n</StandardBusinessDocument>\n"
    )
}

#[derive(Clone, Copy, PartialEq)]
enum Endian {
    Big,
    Little,
}

fn utf16(text: &str, endian: Endian) -> Vec<u8> {
    let units = format!("\u{FEFF}{}", text.replace("encoding='UTF-8'", "encoding='UTF-16'"));
    let bytes = |unit: u16| if endian == Endian::Big { unit.to_be_bytes() } else { unit.to_le_bytes() };
    units.encode_utf16().flat_map(bytes).collect()
}

fn read(envelope: &[u8], piece: usize) -> Result<Sbd, SbdError> {
    let mut reader = SbdReader::new(SbdLimits::default());
    envelope.chunks(piece).try_for_each(|chunk| reader.feed(chunk))?;
    reader.finish()
}

/// The business document, got back from the envelope.
fn document(envelope: &[u8], sbd: &Sbd, piece: usize) -> Vec<u8> {
    let mut reader = DocumentReader::new(&sbd.payload);
    let mut out = Vec::new();
    let mut sink = |bytes: &[u8]| -> Result<(), SbdError> {
        out.extend_from_slice(bytes);
        Ok(())
    };
    envelope.chunks(piece).for_each(|chunk| reader.feed(chunk, &mut sink).unwrap());
    reader.finish(&mut sink).unwrap();
    out
}

/// Reads in pieces of many lengths, all with one result, and gets the document that was digested.
fn check(envelope: &[u8]) -> (Sbd, Vec<u8>) {
    let sbd = read(envelope, usize::MAX).unwrap();
    let whole = document(envelope, &sbd, usize::MAX);
    for piece in [1, 2, 3, 61, 4096] {
        assert!(read(envelope, piece).as_ref() == Ok(&sbd), "in pieces of {piece}");
        assert!(document(envelope, &sbd, piece) == whole, "in pieces of {piece}");
    }
    assert_eq!(sbd.document, Digest::of(&whole));
    assert_eq!(sbd.document_size, whole.len() as u64);
    assert_eq!((sbd.total, sbd.total_size), (Digest::of(envelope), envelope.len() as u64));
    (sbd, whole)
}

fn check_document(root_attributes: &str, payload: &str, expected: &str) -> Sbd {
    let (sbd, whole) = check(sbd(root_attributes, payload).as_bytes());
    assert_eq!(String::from_utf8(whole).unwrap(), expected);
    sbd
}

fn check_refused(envelope: &str, expected: &SbdError) {
    for piece in [1, 7, usize::MAX] {
        assert_eq!(read(envelope.as_bytes(), piece).as_ref(), Err(expected), "{envelope}");
    }
}

#[test]
fn the_header_is_read_as_written() {
    let (sbd, _) = check(sbd("", "<Invoice xmlns='urn:inv'/>").as_bytes());
    let header = &sbd.header;
    assert_eq!(header.header_version.as_deref(), Some("1.0"));
    let participant = |value: &str| {
        let authority = Some("iso6523-actorid-upis".to_owned());
        Some(ParticipantRef { authority, value: Some(value.to_owned()) })
    };
    assert_eq!((&header.sender, &header.receiver), (&participant("0088:1"), &participant("0088:2")));
    assert_eq!(header.standard.as_deref(), Some("urn:inv"));
    assert_eq!(header.type_version.as_deref(), Some("2.1"));
    assert_eq!(header.instance_identifier.as_deref(), Some("i-1"));
    assert_eq!(header.document_type.as_deref(), Some("Invoice"));
    assert_eq!(header.creation.as_deref(), Some("2026-12-01T04:00:00Z"));
    assert_eq!(header.scope("DOCUMENTID").unwrap().identifier.as_deref(), Some("busdox-docid-qns"));
    assert_eq!(header.scope("COUNTRY_C1").unwrap().instance.as_deref(), Some(""));
    assert_eq!(header.scopes.len(), 2);
    assert_eq!((&*sbd.payload.root_namespace, &*sbd.payload.root_local), ("urn:inv", "Invoice"));
    assert_eq!((sbd.payload.form, &*sbd.payload.charset), (PayloadForm::Xml, "UTF-8"));
}

#[test]
fn a_document_that_stands_by_itself_is_cut_out_as_it_is() {
    let document = "<Invoice  xmlns=\"urn:inv\"\n a = 'b' ><?pi?><!-- c -->\r\n<ID>&#13;</ID ></Invoice >";
    let sbd = check_document(" xmlns:xs='urn:xs'", document, document);
    assert_eq!(sbd.payload.insert, None);
    assert_eq!(sbd.payload.end - sbd.payload.start, document.len() as u64);
    check_document("", "<i:Invoice xmlns:i='urn:inv'/>", "<i:Invoice xmlns:i='urn:inv'/>");
}

#[test]
fn declarations_of_the_envelope_that_are_used_are_added() {
    let inserted = check_document(
        " xmlns:i='urn:&lt;&quot;&amp;' xmlns:x='urn:x'",
        "<i:Invoice xmlns='urn:inv'><ID/></i:Invoice>",
        "<i:Invoice xmlns:i=\"urn:&lt;&quot;&amp;\" xmlns='urn:inv'><ID/></i:Invoice>",
    );
    assert!(inserted.payload.insert.is_some());
    let all = format!("<Invoice xmlns=\"{SBDH_NAMESPACE}\" xmlns:x=\"urn:x\"><a>x:y</a></Invoice>");
    check_document(" xmlns:x='urn:x'", "<Invoice><a>x:y</a></Invoice>", &all);
    let below = "<Invoice xmlns='urn:inv'><a><x:b/></a></Invoice>";
    let added = "<Invoice xmlns:x=\"urn:x\" xmlns='urn:inv'><a><x:b/></a></Invoice>";
    check_document(" xmlns:x='urn:x'", below, added);
}

#[test]
fn wrapped_documents_are_unwrapped() {
    let wrapper = |local: &str, content: &str| {
        format!("<{local} xmlns='{CONTENT_NAMESPACE}' mimeType='text/plain'>{content}</{local} >")
    };
    let binary =
        check_document("", &wrapper("BinaryContent", "b25l\r\nUG&#57;<!-- c -->pbnQ=\n"), "onePoint");
    let media_type = Some("text/plain".to_owned());
    assert_eq!(binary.payload.form, PayloadForm::Binary { media_type: media_type.clone(), encoding: None });
    let text = check_document("", &wrapper("TextContent", "a&lt;<![CDATA[<b>]]>\u{20AC}"), "a<<b>\u{20AC}");
    assert_eq!(text.payload.form, PayloadForm::Text { media_type });
    check_document("", &wrapper("BinaryContent", ""), "");
    check_document(&format!(" xmlns:p='{CONTENT_NAMESPACE}'"), "<p:TextContent/>", "");
    check_refused(&sbd("", &wrapper("BinaryContent", "b25")), &SbdError::Base64);
    check_refused(&sbd("", &wrapper("BinaryContent", "<a/>")), &SbdError::WrapperContent);
}

#[test]
fn other_encodings_keep_their_bytes() {
    let payload = "<i:Invoice><i:ID>\u{20AC}\u{1F600}</i:ID></i:Invoice>";
    let text = sbd(" xmlns:i='urn:\u{E9}'", payload);
    for endian in [Endian::Big, Endian::Little] {
        let (read, whole) = check(&utf16(&text, endian));
        let expected = utf16(&payload.replace(":Invoice><", ":Invoice xmlns:i=\"urn:\u{E9}\"><"), endian);
        let expected =
            expected.strip_prefix(if endian == Endian::Big { b"\xFE\xFF" } else { b"\xFF\xFE" }).unwrap();
        assert_eq!(whole, expected);
        assert_eq!(read.payload.charset, if endian == Endian::Big { "UTF-16BE" } else { "UTF-16LE" });
        let base64 = format!("<BinaryContent xmlns='{CONTENT_NAMESPACE}'>b25l</BinaryContent>");
        assert_eq!(check(&utf16(&sbd("", &base64), endian)).1, b"one");
    }
    let latin = sbd(" xmlns:i='urn:&#x20AC;'", "<i:a>E</i:a>").replace("UTF-8", "ISO-8859-1");
    let latin: Vec<u8> = latin.bytes().map(|b| if b == b'E' { 0xE9 } else { b }).collect();
    assert_eq!(check(&latin).1, b"<i:a xmlns:i=\"urn:&#8364;\">\xE9</i:a>");
    let (marked, _) = check(format!("\u{FEFF}{}", sbd("", "<a xmlns=''/>")).as_bytes());
    assert_eq!(marked.payload.charset, "UTF-8");
}

#[test]
fn the_shape_is_demanded() {
    let root = |content: &str| {
        format!("<StandardBusinessDocument xmlns='{SBDH_NAMESPACE}'>{content}</StandardBusinessDocument>")
    };
    check_refused("<a/>", &SbdError::NotAnSbd);
    check_refused("<StandardBusinessDocument/>", &SbdError::NotAnSbd);
    check_refused(&root(""), &SbdError::NoHeader);
    check_refused(&root("<a/>"), &SbdError::NoHeader);
    check_refused(&root(HEADER), &SbdError::NoPayload);
    check_refused(&root(&format!("{HEADER}<a/><b/>")), &SbdError::SecondPayload);
    check_refused(&root(&format!("x{HEADER}<a/>")), &SbdError::StrayText);
    check_refused(&root(&format!("{HEADER}x<a/>")), &SbdError::StrayText);
    check_refused(&root(&format!("{HEADER}<a/>x")), &SbdError::StrayText);
    let twice = SbdError::Twice("StandardBusinessDocumentHeader".into());
    check_refused(&root(&format!("{HEADER}{HEADER}<a/>")), &twice);
    check_refused(&root(&format!("{HEADER}{}", root(HEADER))), &SbdError::Nested);
    check_refused("<!DOCTYPE a><a/>", &SbdError::Scan(ScanError::Doctype));
    let cut = read(root(&format!("{HEADER}<a>")).as_bytes(), 9);
    assert!(matches!(cut, Err(SbdError::Scan(ScanError::Malformed { rule: Violation::EndTag, .. }))));
    let behind = read(format!("{}<b/>", root(&format!("{HEADER}<a/>"))).as_bytes(), 9);
    assert!(matches!(behind, Err(SbdError::Scan(_))));
}

#[test]
fn header_values_are_there_once_and_whole() {
    let changed = |from: &str, to: &str| sbd("", "<a/>").replace(from, to);
    let twice = |what: &str| SbdError::Twice(what.into());
    let sender = "<Sender><Identifier>2</Identifier></Sender><Receiver>";
    check_refused(&changed("<Receiver>", sender), &twice("Sender"));
    check_refused(&changed("</Sender>", "<Identifier/></Sender>"), &twice("Sender/Identifier"));
    let identification = "DocumentIdentification/Type";
    check_refused(&changed("<Type>Invoice", "<Type>x</Type><Type>Invoice"), &twice(identification));
    check_refused(
        &changed("Invoice</Type>", "In<b/>voice</Type>"),
        &SbdError::Content(identification.into()),
    );
    let joined = changed(">Invoice<", ">In<!-- c --><?pi?><![CDATA[voi]]>ce<");
    assert_eq!(check(joined.as_bytes()).0.header.document_type.as_deref(), Some("Invoice"));
    let foreign = changed("<Type>Invoice", "<Type xmlns='urn:x'>y</Type><Type>Invoice");
    assert_eq!(check(foreign.as_bytes()).0.header.document_type.as_deref(), Some("Invoice"));
    let missing = changed("<Type>Invoice</Type>", "");
    assert_eq!(check(missing.as_bytes()).0.header.document_type, None);
}

#[test]
fn the_head_fits_at_the_limit_and_not_beyond() {
    let envelope = sbd("", "<a/>");
    let start = envelope.find("<a/>").unwrap();
    let padded = |head: usize| envelope.replace("<a/>", &format!("{}<a/>", " ".repeat(head - start)));
    for piece in [1000, usize::MAX] {
        assert!(read(padded(HEAD_BYTES_MAX).as_bytes(), piece).is_ok());
        for beyond in [HEAD_BYTES_MAX + 1, 8 * HEAD_BYTES_MAX] {
            let refused = read(padded(beyond).as_bytes(), piece);
            assert_eq!(refused, Err(SbdError::HeadTooLong(HEAD_BYTES_MAX)));
        }
    }
}

#[test]
fn envelopes_differ_by_everything_but_the_time_of_creation() {
    let digest = |text: &str| check(text.as_bytes()).0.envelope;
    let first = sbd("", "<Invoice xmlns='urn:inv'/>");
    let changed = |from: &str, to: &str| digest(&first.replace(from, to));
    let same = digest(&first);
    assert_eq!(changed("2026-12-01T04:00:00Z", "2026-12-02T05:00:00.1+01:00"), same);
    assert_eq!(
        changed("2026-12-01T04:00:00Z", "&#50;026-<![CDATA[]]>"),
        changed("2026-12-01T04:00:00Z", "<![CDATA[x]]>")
    );
    for (from, to) in [
        ("<InstanceIdentifier>i-1", "<InstanceIdentifier>i-2"),
        ("<CreationDateAndTime>", "<CreationDateAndTime >"),
        ("<Invoice xmlns='urn:inv'/>", "<Invoice xmlns='urn:inv' />"),
        ("\n</StandardBusinessDocument>", "</StandardBusinessDocument>"),
        ("</StandardBusinessDocument>\n", "</StandardBusinessDocument>"),
    ] {
        assert_ne!(changed(from, to), same, "{from}");
    }
    let binary = |attributes: &str, content: &str| {
        let payload =
            format!("<BinaryContent xmlns='{CONTENT_NAMESPACE}'{attributes}>{content}</BinaryContent>");
        digest(&sbd("", &payload))
    };
    assert_ne!(binary("", "b25l"), binary("", "b25m"));
    assert_ne!(binary("", "b25l"), binary(" mimeType='a/b'", "b25l"));
    assert_ne!(binary("", "b25l"), binary("", "b25l\n"));
}

#[test]
fn a_document_of_megabytes_comes_back() {
    let octets: Vec<u8> =
        (0..8 << 20_u32).map(|n: u32| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let payload = format!(
        "<BinaryContent xmlns='{CONTENT_NAMESPACE}' mimeType='application/pdf'>{}</BinaryContent>",
        STANDARD.encode(&octets)
    );
    let envelope = sbd("", &payload);
    let sbd = read(envelope.as_bytes(), 60_001).unwrap();
    assert_eq!(sbd.document, Digest::of(&octets));
    assert!(document(envelope.as_bytes(), &sbd, 8192) == octets);
}

#[test]
fn another_envelope_is_noticed() {
    let (sbd, _) = check(
        sbd("", "<TextContent xmlns='http://peppol.eu/xsd/ticc/envelope/1.0'>a</TextContent>").as_bytes(),
    );
    let mut reader = DocumentReader::new(&sbd.payload);
    reader.feed::<SbdError>(b"<a/>", &mut |_| Ok(())).unwrap();
    assert_eq!(reader.finish::<SbdError>(&mut |_| Ok(())), Err(SbdError::OtherEnvelope));
    let mut short = DocumentReader::new(&PayloadSpan { form: PayloadForm::Xml, ..sbd.payload });
    short.feed::<SbdError>(b"<a/>", &mut |_| Ok(())).unwrap();
    assert_eq!(short.finish::<SbdError>(&mut |_| Ok(())), Err(SbdError::OtherEnvelope));
}

/// Content of an element, with everything that may use or hide a declaration.
fn content() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "text",
        "x:y",
        "\u{20AC}",
        "&amp;",
        "<![CDATA[<x:]]>",
        "<!-- x: -->",
        "<?pi x:?>",
        "<x:a/>",
        "<b/>",
        "<b xmlns:x='urn:o'><x:c/></b>",
        "<b x:d=''>e</b>",
        "<b xmlns=''><c/></b>",
        "\r\n",
        "x",
        ":",
        "<b d='x:y'/>",
    ]);
    prop::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_document_comes_back_and_stands_by_itself(
        content in content(),
        root in prop::sample::select(vec!["a", "x:a", "a xmlns='urn:inv'", "x:a xmlns:x='urn:own'", "a x:b='c'"]),
        shape in 0..3_usize,
        piece in 1..200_usize,
    ) {
        let name = root.split(' ').next().unwrap();
        let text = sbd(" xmlns:x='urn:x' xmlns:y='urn:y'", &format!("<{root}>{content}</{name}>"));
        let envelope = match shape {
            0 => text.into_bytes(),
            1 => utf16(&text, Endian::Big),
            _ => utf16(&text, Endian::Little),
        };
        let sbd = read(&envelope, piece).unwrap();
        let whole = document(&envelope, &sbd, piece);
        prop_assert_eq!(sbd.document, Digest::of(&whole));
        let marked = match shape {
            0 => whole,
            1 => [b"\xFE\xFF", &whole[..]].concat(),
            _ => [b"\xFF\xFE", &whole[..]].concat(),
        };
        let limits = crate::wire::xml::XmlLimits::SOAP;
        let alone = crate::wire::xml::Document::parse(&marked, &limits).unwrap();
        let inside = crate::wire::xml::Document::parse(&envelope, &limits).unwrap();
        let payload = inside.elements(inside.root()).nth(1).unwrap();
        let canonical = |document, apex| {
            let mut out = Vec::new();
            crate::wire::c14n::exclusive(document, apex, &[], &mut out);
            String::from_utf8(out).unwrap()
        };
        prop_assert_eq!(canonical(&alone, alone.root()), canonical(&inside, payload));
    }

    #[test]
    fn damage_is_judged_the_same_in_any_pieces(
        at in any::<prop::sample::Index>(),
        octet in any::<u8>(),
        piece in 1..200_usize,
    ) {
        let payload = format!("<BinaryContent xmlns='{CONTENT_NAMESPACE}'>b25l</BinaryContent>");
        let mut envelope = sbd(" xmlns:x='urn:x'", &payload).into_bytes();
        let at = at.index(envelope.len());
        envelope[at] = octet;
        prop_assert_eq!(read(&envelope, piece).ok(), read(&envelope, usize::MAX).ok());
    }
}
