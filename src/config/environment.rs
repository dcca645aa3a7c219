//! `ONCEPOINT_SECTION__KEY` overrides a key of the file; names without `__` are left alone.

use toml::{Table, Value};

/// Every variable that overrides begins with this.
const PREFIX: &str = "ONCEPOINT_";

/// Puts the overrides of `variables` into `file`. A value is read as TOML where it is TOML (`true`, `5`,
/// `["a"]`), otherwise as a text, so that `ONCEPOINT_AS4__LISTEN=0.0.0.0:443` needs no quotes.
pub(super) fn override_with(file: &mut Table, variables: impl Iterator<Item = (String, String)>) {
    let mut overrides: Vec<_> = variables.filter_map(|(name, value)| Some((path(&name)?, value))).collect();
    overrides.sort();
    for (path, value) in overrides {
        put(file, &path, parse(&value));
    }
}

fn path(name: &str) -> Option<Vec<String>> {
    let keys: Vec<_> = name.strip_prefix(PREFIX)?.split("__").map(str::to_ascii_lowercase).collect();
    (keys.len() > 1 && keys.iter().all(|key| !key.is_empty())).then_some(keys)
}

fn parse(text: &str) -> Value {
    let typed = toml::from_str::<Table>(&format!("value = {text}")).ok().and_then(|mut t| t.remove("value"));
    typed.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn put(table: &mut Table, path: &[String], value: Value) {
    match path {
        [] => {}
        [key] => drop(table.insert(key.clone(), value)),
        [section, rest @ ..] => {
            let entry = table.entry(section.clone()).or_insert_with(|| Value::Table(Table::new()));
            // The only section that may be a list is [[identity]]; an override means its first table.
            let inner = match entry {
                Value::Array(list) => list.first_mut(),
                other => Some(other),
            };
            if let Some(Value::Table(inner)) = inner {
                put(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, variables: &[(&str, &str)], expected: &str) {
        let mut table: Table = toml::from_str(file).unwrap();
        override_with(&mut table, variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        assert_eq!(table, toml::from_str::<Table>(expected).unwrap());
    }

    #[test]
    fn a_variable_replaces_or_adds_a_key() {
        check(
            "[as4]\nlisten = \"a\"",
            &[("ONCEPOINT_AS4__LISTEN", "0.0.0.0:443"), ("ONCEPOINT_AS4__MAX_CONNECTIONS", "7")],
            "[as4]\nlisten = \"0.0.0.0:443\"\nmax_connections = 7",
        );
        check("", &[("ONCEPOINT_AS4__TLS__CERT", "x.pem")], "[as4.tls]\ncert = \"x.pem\"");
    }

    #[test]
    fn names_without_a_double_underscore_are_ignored() {
        check("", &[("ONCEPOINT_REQUIRE_SHARED", "1"), ("PATH", "x"), ("ONCEPOINT___X", "1")], "");
    }

    #[test]
    fn an_override_of_a_list_means_its_first_table() {
        check("[[identity]]\nkey = \"a\"", &[("ONCEPOINT_IDENTITY__KEY", "b")], "[[identity]]\nkey = \"b\"");
    }
}
