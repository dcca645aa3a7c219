//! The files of `schemas/` say what the readers do.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops where it cannot go on"
)]

#[path = "schemas/json.rs"]
mod json;
#[path = "oracle/judge.rs"]
mod judge;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use json::Schema;
use judge::Judge;
use oncepoint::config::file::Stage;
use oncepoint::config::{Config, template};
use oncepoint::pmode::{self, PModes};
use serde_json::{Value, json};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(folder(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// XML Schemas: an example, and one changed document for every rule.
mod xml {
    use Verdict::{Invalid, Malformed, Valid};

    use super::*;

    #[derive(Debug, PartialEq)]
    enum Verdict {
        Malformed,
        Invalid,
        Valid,
    }

    fn validate(judge: &mut Judge, document: &str) -> Verdict {
        judge.write(document.as_bytes());
        judge.flush();
        match judge.byte() {
            0 => Malformed,
            1 => Invalid,
            _ => Valid,
        }
    }

    /// Checks an example as it is, and with one piece replaced at a time.
    fn check(schema: &str, example: &str, changes: &[(&str, &str, Verdict)]) {
        let Some(mut judge) = Judge::start("schema", Some(&folder("schemas").join(schema))) else { return };
        let example = read(&format!("schemas/examples/{example}"));
        assert_eq!(validate(&mut judge, &example), Valid);
        assert_eq!(validate(&mut judge, &example.replacen("</", "<", 1)), Malformed);
        for (from, to, verdict) in changes {
            assert!(example.contains(from), "{from}");
            let changed = example.replacen(from, to, 1);
            assert_eq!(validate(&mut judge, &changed), *verdict, "{from} as {to}");
        }
    }

    #[test]
    fn a_user_message_has_the_values_of_the_network() {
        check(
            "ebms-messaging.xsd",
            "user-message.xml",
            &[
                (" wsu:Id=\"messaging\"", "", Valid),
                (" wsu:Id=\"messaging\"", " other=\"x\"", Invalid),
                ("125Z", "125+02:00", Valid),
                ("125Z", "125", Valid),
                ("2026-12-01T", "2026-12-01 ", Invalid),
                ("order-17@sender.example", "order-17", Valid),
                ("order-17@sender.example", "order 17", Invalid),
                ("order-17@sender.example", "", Invalid),
                ("order-17@sender.example", &"x".repeat(255), Valid),
                ("order-17@sender.example", &"x".repeat(256), Invalid),
                ("PXX000901", "pxx000901", Invalid),
                ("PXX000901", "PXX00901", Invalid),
                (" type=\"urn:fdc:peppol.eu:2017:identifiers:ap\">PXX000901", ">PXX000901", Invalid),
                ("identifiers:ap", "identifiers:smp", Invalid),
                ("/initiator", "/responder", Invalid),
                ("ap_provider", "other", Invalid),
                ("<eb:AgreementRef>", "<eb:AgreementRef pmode=\"p\">", Invalid),
                ("<eb:Service type=\"cenbii-procid-ubl\">", "<eb:Service>", Valid),
                ("conversation-17", "", Valid),
                ("<eb:ConversationId>conversation-17</eb:ConversationId>", "", Invalid),
                ("finalRecipient", "originalSender", Invalid),
                (" name=\"originalSender\"", "", Invalid),
                ("cid:part-17", "http://part-17", Invalid),
                (" href=\"cid:part-17@sender.example\"", "", Invalid),
                ("<eb:Property name=\"CompressionType\">application/gzip</eb:Property>", "", Valid),
                ("<eb:UserMessage>", "<eb:UserMessage mpc=\"urn:other\">", Invalid),
                ("<eb:UserMessage>", "<eb:SignalMessage/><eb:UserMessage>", Invalid),
                ("</eb:PartInfo>", "</eb:PartInfo><eb:PartInfo href=\"cid:b\"/>", Invalid),
            ],
        );
    }

    #[test]
    fn a_receipt_says_something() {
        check(
            "ebms-messaging.xsd",
            "receipt.xml",
            &[
                ("<eb:RefToMessageId>order-17@sender.example</eb:RefToMessageId>", "", Valid),
                ("</eb:Receipt>", "<x:more xmlns:x=\"urn:x\"/></eb:Receipt>", Valid),
                ("<eb:Receipt>", "<eb:Receipt><eb:UserMessage/>", Invalid),
                ("<eb:Receipt>", "<eb:PullRequest/><eb:Receipt>", Invalid),
                (
                    "</eb:SignalMessage>",
                    "<eb:Receipt><x xmlns=\"urn:x\"/></eb:Receipt></eb:SignalMessage>",
                    Invalid,
                ),
            ],
        );
    }

    #[test]
    fn an_error_has_a_code_and_a_severity() {
        check(
            "ebms-messaging.xsd",
            "error.xml",
            &[
                (" errorCode=\"EBMS:0004\"", "", Invalid),
                (" severity=\"failure\"", "", Invalid),
                ("severity=\"failure\"", "severity=\"error\"", Valid),
                (" origin=\"ebMS\"", "", Valid),
                (" xml:lang=\"en\"", "", Invalid),
                ("This participant is not serviced here.", "", Invalid),
                ("<eb:ErrorDetail>PEPPOL:NOT_SERVICED</eb:ErrorDetail>", "", Valid),
                (
                    "</eb:SignalMessage>",
                    "<eb:Error errorCode=\"a\" severity=\"b\"/></eb:SignalMessage>",
                    Valid,
                ),
            ],
        );
    }

    #[test]
    fn an_envelope_has_the_header_of_the_network_and_one_payload() {
        let order = "<Order xmlns=\"urn:oasis:names:specification:ubl:schema:xsd:Order-2\"/>";
        check(
            "sbdh.xsd",
            "sbd.xml",
            &[
                (">1.0<", ">1.1<", Invalid),
                ("iso6523-actorid-upis", "other", Invalid),
                (" Authority=\"iso6523-actorid-upis\"", "", Invalid),
                ("9915:sender-of-examples", "sender-of-examples", Invalid),
                ("9915:sender-of-examples", &format!("9915:{}", "x".repeat(130)), Valid),
                ("9915:sender-of-examples", &format!("9915:{}", "x".repeat(131)), Invalid),
                (
                    "</Sender>",
                    "<ContactInformation><Contact>x</Contact></ContactInformation></Sender>",
                    Valid,
                ),
                ("</Sender>", "</Sender><Sender/>", Invalid),
                ("envelope-17", "", Invalid),
                ("+01:00", "Z", Valid),
                ("+01:00", "", Invalid),
                ("<CreationDateAndTime>", "<MultipleType>false</MultipleType><CreationDateAndTime>", Valid),
                (
                    "<BusinessScope>",
                    "<Manifest><NumberOfItems>1</NumberOfItems></Manifest><BusinessScope>",
                    Valid,
                ),
                ("PROCESSID", "DOCUMENTID", Invalid),
                (
                    "</BusinessScope>",
                    "<Scope><Type>X</Type><InstanceIdentifier/></Scope></BusinessScope>",
                    Valid,
                ),
                ("</BusinessScope>", "<Scope><Type>X</Type></Scope></BusinessScope>", Invalid),
                ("<Identifier>cenbii-procid-ubl</Identifier>", "", Valid),
                (order, "", Invalid),
                (order, "<a xmlns=\"\"/>", Valid),
                (order, "<StandardBusinessDocument/>", Invalid),
                (order, "<a xmlns=\"urn:a\"/><b xmlns=\"urn:b\"/>", Invalid),
            ],
        );
    }
}

/// The configuration: schema and reader agree.
mod configuration {
    use super::*;

    fn load(text: &str) -> Result<Config, String> {
        let path = Path::new("oncepoint.toml");
        Config::from_text(text, path, Path::new(""), std::iter::empty()).map_err(|error| error.to_string())
    }

    fn as_json(text: &str) -> Value {
        toml::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The template with its commented keys switched on.
    fn everything(stage: Stage) -> String {
        let is_key = |line: &&str| line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '));
        template(stage, "PXX000901")
            .lines()
            .map(|line| line.strip_prefix("# ").filter(is_key).unwrap_or(line))
            .collect::<Vec<_>>()
            .join("\n")
    }

    const STAGES: [Stage; 3] = [Stage::Local, Stage::Test, Stage::Production];

    #[test]
    fn what_the_reader_writes_and_reads_is_valid() {
        let schema = Schema::read("oncepoint.schema.json");
        for stage in STAGES {
            let text = template(stage, "PXX000901");
            assert_eq!(schema.check(&as_json(&text)), Ok(()));
            let config = load(&text).expect("the template loads");
            let written = toml::to_string(&config.file).expect("it can be written");
            assert_eq!(schema.check(&as_json(&written)), Ok(()));
        }
    }

    #[test]
    fn every_key_of_the_template_is_in_the_schema() {
        let schema = Schema::read("oncepoint.schema.json");
        let document = as_json(&everything(Stage::Test));
        let keys = |value: &Value| value.as_object().map_or(0, serde_json::Map::len);
        let count: usize = document.as_object().expect("sections").values().map(keys).sum();
        assert!(count > 30, "{count} keys");
        assert_eq!(schema.check(&document), Ok(()));
    }

    /// Sets one key of one section in a configuration that loads.
    fn with(section: &str, key: &str, value: &Value) -> String {
        let mut document = as_json(&template(Stage::Local, "PXX000901"));
        let members = document.as_object_mut().expect("sections");
        let members = members.entry(section).or_insert_with(|| json!({}));
        members[key] = value.clone();
        toml::to_string(&document).expect("TOML")
    }

    fn sample(schema: &Schema, property: &Value) -> Option<Value> {
        let first = |list: &Value| list.get(0).cloned();
        let definition = schema.resolve(property);
        [Some(property), definition].into_iter().flatten().find_map(|at| {
            at.get("default").cloned().or_else(|| first(&at["examples"])).or_else(|| first(&at["enum"]))
        })
    }

    #[test]
    fn every_key_of_the_schema_is_one_of_the_reader() {
        let schema = Schema::read("oncepoint.schema.json");
        let mut tried = 0;
        for (section, rules) in schema.root["properties"].as_object().expect("sections") {
            for (key, property) in rules["properties"].as_object().into_iter().flatten() {
                let Some(value) = sample(&schema, property) else { continue };
                let text = with(section, key, &value);
                assert!(load(&text).is_ok(), "{section}.{key}: {:?}", load(&text).err());
                assert_eq!(schema.check(&as_json(&text)), Ok(()), "{section}.{key}");
                tried += 1;
            }
        }
        assert!(tried > 30, "{tried} keys");
    }

    #[test]
    fn what_the_reader_refuses_is_invalid() {
        let schema = Schema::read("oncepoint.schema.json");
        let wrong = [
            ("node", "stage", json!("staging")),
            ("node", "other", json!("x")),
            ("as4", "max_message", json!(5)),
            ("as4", "max_message", json!("5")),
            ("as4", "max_message", json!("5MB")),
            ("as4", "body_idle", json!("20")),
            ("as4", "body_idle", json!("20 weeks")),
            ("as4", "path", json!("as4")),
            ("as4", "max_ratio", json!(0)),
            ("as4", "max_connections", json!(0)),
            ("as4", "behind_proxy", json!("yes")),
            ("as4", "tls", json!({ "cert": "a" })),
            ("connector", "listen", json!("localhost")),
            ("trust", "revocation", json!("maybe")),
            ("trust", "roots", json!([])),
            ("dedup", "scope", json!("party")),
            ("store", "kind", json!("memory")),
            ("discovery", "static", json!([{ "participant": "x" }])),
            ("identity", "other", json!("x")),
            ("participants", "other", json!("x")),
        ];
        for (section, key, value) in wrong {
            let text = with(section, key, &value);
            assert!(load(&text).is_err(), "the reader takes {section}.{key} = {value}");
            assert!(schema.check(&as_json(&text)).is_err(), "the schema takes {section}.{key} = {value}");
        }
        for section in ["node", "identity", "trust", "participants"] {
            let mut document = as_json(&template(Stage::Local, "PXX000901"));
            document.as_object_mut().expect("sections").remove(section);
            assert!(schema.check(&document).is_err(), "{section} is left out");
            assert!(load(&toml::to_string(&document).expect("TOML")).is_err(), "{section} is left out");
        }
    }
}

/// P-Mode files: schema, reader and the table of the README agree.
mod pmodes {
    use super::*;

    fn load(document: &BTreeMap<String, Value>) -> Result<(), String> {
        let text = toml::to_string(document).expect("TOML");
        let defaults = pmode::Defaults { stage: Stage::Local, ..pmode::Defaults::default() };
        PModes::from_texts(&[("p.toml", &text)], &defaults).map(drop).map_err(|error| error.to_string())
    }

    fn minimal() -> BTreeMap<String, Value> {
        BTreeMap::from([
            ("PMode.ID".to_owned(), json!("p")),
            ("oncepoint.network".to_owned(), json!("plain")),
        ])
    }

    /// A key needs another at times.
    fn with(key: &str, value: &Value) -> BTreeMap<String, Value> {
        let mut document = minimal();
        if let Some(base) = key.strip_suffix(".type").filter(|base| !base.ends_with("Party")) {
            document.insert(base.to_owned(), json!("urn:x"));
        }
        document.insert(key.to_owned(), value.clone());
        document
    }

    fn as_json(document: &BTreeMap<String, Value>) -> Value {
        Value::Object(document.clone().into_iter().collect())
    }

    fn values(property: &Value) -> Vec<Value> {
        let lists = ["enum", "examples"].into_iter().filter_map(|key| property[key].as_array()).flatten();
        let single = ["const", "default"].into_iter().filter_map(|key| property.get(key));
        lists.chain(single).cloned().collect()
    }

    #[test]
    fn the_files_that_are_shipped_are_valid() {
        let schema = Schema::read("pmode.schema.json");
        for file in ["pmodes/peppol.toml", "pmodes/ping.toml"] {
            let document: Value = toml::from_str(&read(file)).expect("TOML");
            assert_eq!(schema.check(&document), Ok(()), "{file}");
        }
    }

    #[test]
    fn every_value_of_the_schema_is_read() {
        let schema = Schema::read("pmode.schema.json");
        for (key, property) in schema.root["properties"].as_object().expect("keys") {
            let values = values(property);
            assert!(!values.is_empty(), "{key} has no value to try");
            for value in values {
                let document = with(key, &value);
                assert_eq!(load(&document), Ok(()), "{key} = {value}");
                assert_eq!(schema.check(&as_json(&document)), Ok(()), "{key} = {value}");
            }
        }
    }

    #[test]
    fn a_value_of_another_kind_is_refused_by_both() {
        let schema = Schema::read("pmode.schema.json");
        for key in schema.root["properties"].as_object().expect("keys").keys() {
            for wrong in [json!({ "x": 1 }), json!([1]), json!(-7), json!("")] {
                let document = with(key, &wrong);
                assert!(load(&document).is_err(), "the reader takes {key} = {wrong}");
                assert!(schema.check(&as_json(&document)).is_err(), "the schema takes {key} = {wrong}");
            }
        }
    }

    #[test]
    fn fixed_values_are_fixed_in_both() {
        let schema = Schema::read("pmode.schema.json");
        for (key, property) in schema.root["properties"].as_object().expect("keys") {
            if ["const", "enum"].iter().any(|rule| property.get(rule).is_some()) {
                let document = with(key, &json!("other"));
                assert!(load(&document).is_err(), "{key}");
                assert!(schema.check(&as_json(&document)).is_err(), "{key}");
            }
        }
        for key in ["PMode.ID", "oncepoint.network"] {
            let mut document = minimal();
            document.remove(key);
            assert!(load(&document).is_err() && schema.check(&as_json(&document)).is_err(), "{key}");
        }
    }

    #[test]
    fn the_readme_lists_the_keys_of_the_schema() {
        let schema = Schema::read("pmode.schema.json");
        let keys: BTreeSet<String> =
            schema.root["properties"].as_object().expect("keys").keys().cloned().collect();
        assert_eq!(listed(&read("pmodes/README.md")), keys);
    }

    /// The names in the first column of the table; `…Name` continues the report of the name before.
    fn listed(readme: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for row in readme.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
            let column = row.split('|').nth(1).expect("a column");
            for name in column.split('`').skip(1).step_by(2) {
                names.insert(name.replace('…', "PMode[1].ErrorHandling.Report."));
            }
        }
        names
    }
}
