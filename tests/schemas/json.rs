//! As much of JSON Schema as the schemas here use; a keyword that is not known is a failure.

use serde_json::Value;

type Meaning = fn(&str) -> bool;

/// Patterns of the schemas, and what they mean.
const PATTERNS: &[(&str, Meaning)] = &[
    ("^/", |text| text.starts_with('/')),
    ("^.+:[0-9]+$", is_address),
    ("^[0-9]+(ms|s|m|h|d)$", is_duration),
    ("^([0-9]+(ms|s|m|h|d)|forever)$", |text| text == "forever" || is_duration(text)),
    ("^[0-9]+(B|KiB|MiB|GiB)$", |text| has_unit(text, &["B", "KiB", "MiB", "GiB"])),
];

fn is_address(text: &str) -> bool {
    let digits = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && digits(port))
}

fn is_duration(text: &str) -> bool {
    has_unit(text, &["ms", "s", "m", "h", "d"])
}

fn has_unit(text: &str, units: &[&str]) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    unit.len() < text.len() && units.contains(&unit)
}

/// A schema with its definitions.
pub(crate) struct Schema {
    pub(crate) root: Value,
}

impl Schema {
    pub(crate) fn read(name: &str) -> Self {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas").join(name);
        let text = std::fs::read_to_string(path).expect("schema");
        Self { root: serde_json::from_str(&text).expect("JSON") }
    }

    /// Why a value is not valid; `Ok` when it is.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        self.at(&self.root, value, "")
    }

    /// A schema with the definition that it refers to.
    pub(crate) fn resolve<'s>(&'s self, schema: &'s Value) -> Option<&'s Value> {
        let name = schema.get("$ref")?.as_str()?.strip_prefix("#/$defs/").expect("a definition");
        Some(&self.root["$defs"][name])
    }

    fn at(&self, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
        for (keyword, rule) in schema.as_object().expect("a schema is an object") {
            let good = match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" | "default" | "examples" => true,
                "$ref" => {
                    self.at(self.resolve(schema).expect("defined"), value, path)?;
                    true
                }
                "type" => has_type(value, rule.as_str().expect("one type")),
                "enum" => rule.as_array().expect("a list").contains(value),
                "const" => rule == value,
                "minimum" => value.as_i64() >= rule.as_i64(),
                "minLength" => value.as_str().is_none_or(|text| text.len() as u64 >= number(rule)),
                "maxLength" => value.as_str().is_none_or(|text| text.len() as u64 <= number(rule)),
                "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= number(rule)),
                "maxItems" => value.as_array().is_none_or(|items| items.len() as u64 <= number(rule)),
                "pattern" => value.as_str().is_none_or(|text| matches(rule, text)),
                "required" => missing(rule, value).is_none(),
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.at(rule, item, &format!("{path}/{index}"))?;
                    }
                    true
                }
                "properties" | "additionalProperties" => {
                    self.members(schema, value, path)?;
                    true
                }
                "oneOf" => {
                    let fitting = |schema: &&Value| self.at(schema, value, path).is_ok();
                    rule.as_array().expect("a list").iter().filter(fitting).count() == 1
                }
                other => panic!("{other} is not known here"),
            };
            if !good {
                return Err(format!("{path}: {value} breaks {keyword} {rule}"));
            }
        }
        Ok(())
    }

    fn members(&self, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
        for (key, member) in value.as_object().into_iter().flatten() {
            let path = format!("{path}/{key}");
            match (schema["properties"].get(key), &schema["additionalProperties"]) {
                (Some(schema), _) => self.at(schema, member, &path)?,
                (None, Value::Bool(false)) => return Err(format!("{path} is not known")),
                (None, Value::Null) => {}
                (None, schema) => self.at(schema, member, &path)?,
            }
        }
        Ok(())
    }
}

fn number(rule: &Value) -> u64 {
    rule.as_u64().expect("a number")
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        other => panic!("type {other} is not known here"),
    }
}

fn matches(pattern: &Value, text: &str) -> bool {
    let (_, meaning) =
        PATTERNS.iter().find(|(known, _)| pattern == known).expect("a pattern that is known here");
    meaning(text)
}

fn missing<'r>(required: &'r Value, value: &Value) -> Option<&'r Value> {
    let names = required.as_array().expect("a list");
    names.iter().find(|name| value.get(name.as_str().expect("a name")).is_none())
}
