//! Signature wrapping: the signed element stays somewhere in the message, another stands where the reader
//! looks (`xml-security` §8.4, `as4-wire` §10.1 and §10.2).

use crate::security::{
    signature::Verified,
    testing::{
        self,
        message::{self, MESSAGE_ID, outcome, seal, template},
    },
};

/// The element between two marks, and what stands before and after.
fn cut(xml: &str, start: &str, end: &str) -> (String, String, String) {
    let from = xml.find(start).unwrap();
    let to = from + xml[from..].find(end).unwrap() + end.len();
    (xml[..from].to_owned(), xml[from..to].to_owned(), xml[to..].to_owned())
}

/// A signed or used element, and a forged one.
struct Victim {
    name: &'static str,
    start: &'static str,
    end: &'static str,
    /// The Id attribute of the genuine one.
    id: &'static str,
    forge: fn(&str) -> String,
}

fn victims() -> [Victim; 4] {
    [
        Victim {
            name: "Messaging",
            start: "<eb:Messaging",
            end: "</eb:Messaging>",
            id: " wsu:Id=\"msg\"",
            forge: |genuine| genuine.replace(MESSAGE_ID, "forged@attacker"),
        },
        Victim {
            name: "Body",
            start: "<S12:Body",
            end: "</S12:Body>",
            id: " wsu:Id=\"body\"",
            forge: |genuine| genuine.replace("></", "><evil/></"),
        },
        Victim {
            name: "BinarySecurityToken",
            start: "<wsse:BinarySecurityToken EncodingType=\"http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#Base64Binary\" ValueType=\"http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-x509-token-profile-1.0#X509v3\" wsu:Id=\"X509-sig\"",
            end: "</wsse:BinarySecurityToken>",
            id: " wsu:Id=\"X509-sig\"",
            forge: |_| message::token("X509-sig", testing::receiver()),
        },
        Victim {
            name: "EncryptedKey",
            start: "<xenc:EncryptedKey",
            end: "</xenc:EncryptedKey>",
            id: " Id=\"EK\"",
            forge: |_| message::encrypted_key("EK"),
        },
    ]
}

/// Where the genuine element goes: a mark in the message, and what is put before it.
const PLACES: [(&str, &str, &str, &str); 9] = [
    ("last header block", "</S12:Header>", "<x:W xmlns:x=\"urn:x\">", "</x:W>"),
    ("first header block", "<wsse:Security", "<x:W xmlns:x=\"urn:x\">", "</x:W>"),
    ("child of Security", "</wsse:Security>", "", ""),
    ("wrapped child of Security", "</wsse:Security>", "<x:W xmlns:x=\"urn:x\">", "</x:W>"),
    ("ds:Object", "</ds:Signature>", "<ds:Object>", "</ds:Object>"),
    ("KeyInfo", "</ds:KeyInfo>", "", ""),
    ("behind Body", "</S12:Envelope>", "", ""),
    ("in Body", "</S12:Body>", "", ""),
    ("header block of its own", "</S12:Header>", "", ""),
];

/// The Id of the forged element: the genuine one's, another, none.
fn ids(victim: &Victim, forged: &str) -> [String; 3] {
    [forged.to_owned(), forged.replacen(victim.id, &victim.id.replace('"', "\"other"), 1), {
        forged.replacen(victim.id, "", 1)
    }]
}

/// Whatever is accepted must be what the sender signed.
fn is_genuine(verified: &Verified) -> bool {
    verified.message().message_id.as_str() == MESSAGE_ID
        && verified.signer().subject().as_str() == "POP000001"
        && verified.envelope().body_is_empty()
}

#[test]
fn the_message_itself_is_accepted() {
    let verified = outcome(&seal(&template())).unwrap();
    assert!(is_genuine(&verified));
    assert_eq!(verified.attachments().len(), 1);
}

#[test]
fn no_shape_of_wrapping_gets_a_forged_element_read() {
    let genuine = seal(&template());
    let (mut refused, mut accepted) = (0, Vec::new());
    for victim in victims() {
        let (before, element, after) = cut(&genuine, victim.start, victim.end);
        for forged in ids(&victim, &(victim.forge)(&element)) {
            let mut shapes: Vec<(&str, String)> = PLACES
                .iter()
                .map(|(place, mark, open, close)| {
                    let forged_message = format!("{before}{forged}{after}");
                    let moved = format!("{open}{element}{close}{mark}");
                    (*place, forged_message.replacen(mark, &moved, 1))
                })
                .collect();
            // The genuine one inside the forged one, and beside it in both orders.
            let (shell, end) = forged.rsplit_once("</").unwrap();
            shapes.push(("inside", format!("{before}{shell}{element}</{end}{after}")));
            shapes.push(("before", format!("{before}{element}{forged}{after}")));
            shapes.push(("behind", format!("{before}{forged}{element}{after}")));
            for (place, xml) in shapes {
                let name = format!("{} {place}", victim.name);
                match outcome(&xml) {
                    Err(_) => refused += 1,
                    Ok(verified) => {
                        assert!(is_genuine(&verified), "{name}");
                        accepted.push(name);
                    }
                }
            }
        }
    }
    // A second token that nothing refers to changes nothing.
    assert!(accepted.iter().all(|name| name.starts_with("BinarySecurityToken")), "{accepted:?}");
    assert!(refused > 120, "{refused}");
}

#[test]
fn a_second_element_with_a_signed_id_is_refused_in_every_spelling_of_ids() {
    let genuine = seal(&template());
    let spellings = ["wsu:Id", "Id", "ID", "id", "xml:id"];
    for id in ["msg", "body", "X509-sig", "EK", "SIG"] {
        for spelling in spellings {
            let foreign = format!("<x:W xmlns:x=\"urn:x\" {spelling}=\"{id}\"/></S12:Header>");
            let refused = outcome(&genuine.replace("</S12:Header>", &foreign)).map(|_| ()).unwrap_err();
            assert!(refused.contains("Id"), "{spelling}={id}: {refused}");
        }
    }
}

#[test]
fn an_element_may_give_its_own_id_in_several_spellings() {
    let with = |ids: &str| template().replace("<S12:Body wsu:Id=\"body\">", &format!("<S12:Body {ids}>"));
    for ids in ["Id=\"body\"", "Id=\"body\" id=\"body\"", "wsu:Id=\"body\" xml:id=\"body\""] {
        assert!(outcome(&seal(&with(ids))).is_ok(), "{ids}");
    }
}

#[test]
fn a_token_outside_the_security_header_is_no_token() {
    let genuine = seal(&template());
    let victim = &victims()[2];
    let (before, element, after) = cut(&genuine, victim.start, victim.end);
    let moved = format!("{before}{after}").replace("</S12:Header>", &format!("{element}</S12:Header>"));
    assert!(outcome(&moved).unwrap_err().contains("BinarySecurityToken"));
}

#[test]
fn a_comment_neither_cuts_a_token_nor_a_digest_short() {
    let genuine = seal(&template());
    let (before, element, after) = cut(&genuine, victims()[2].start, victims()[2].end);
    let commented = element.replacen(">M", "><!-- x -->M<!-- y -->", 1);
    assert!(is_genuine(&outcome(&format!("{before}{commented}{after}")).unwrap()));

    let verified = outcome(&genuine).unwrap();
    let digest = verified.attachments()[0].digest.to_base64();
    let (start, end) = digest.split_at(20);
    let other = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    for commented in [format!("<!--{other}-->{digest}"), format!("{start}<!--{other}-->{end}")] {
        let verified = outcome(&genuine.replace(&digest, &commented)).unwrap();
        assert_eq!(verified.attachments()[0].digest.to_base64(), digest);
    }
}

#[test]
fn any_change_of_a_signed_character_is_refused() {
    let genuine = seal(&template());
    for (from, to) in [
        (MESSAGE_ID, "genuine@sendex"),
        ("POP000002", "POP000003"),
        (" wsu:Id=\"body\">", " wsu:Id=\"body\"> "),
        ("cid:att@x\"><eb:", "cid:att@x\" ><eb:Description xml:lang=\"en\">x</eb:Description><eb:"),
        ("<ds:Reference URI=\"#body\"", "<ds:Reference Id=\"x\" URI=\"#body\""),
    ] {
        assert!(genuine.contains(from), "{from}");
        assert!(outcome(&genuine.replacen(from, to, 1)).is_err(), "{from}");
    }
}
