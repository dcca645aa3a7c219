//! The keys of one file: flattened to dotted names, taken one by one, nothing left over.

use std::collections::BTreeMap;

use toml::Value;

use super::file::PModeFileError;
use crate::model::Span;

/// Keys whose value is a table of its own and not more of the dotted name.
const TABLES: [&str; 2] = ["oncepoint.window_by_document", "oncepoint.window_by_partner"];

/// What a file says, by dotted name. Every reader takes its key away; what is left is unknown.
pub(super) struct Keys<'a> {
    file: &'a str,
    values: BTreeMap<String, Value>,
}

impl<'a> Keys<'a> {
    pub(super) fn read(file: &'a str, text: &str) -> Result<Self, PModeFileError> {
        let table: toml::Table = toml::from_str(text).map_err(|error| PModeFileError::Toml {
            file: file.to_owned(),
            message: error.to_string().trim_end().to_owned(),
        })?;
        let mut keys = Self { file, values: BTreeMap::new() };
        let mut waiting: Vec<(String, Value)> = table.into_iter().collect();
        while let Some((name, value)) = waiting.pop() {
            match value {
                Value::Table(inner) if !TABLES.contains(&name.as_str()) => {
                    waiting.extend(inner.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
                }
                value => keys.insert(&name, value)?,
            }
        }
        Ok(keys)
    }

    fn insert(&mut self, name: &str, value: Value) -> Result<(), PModeFileError> {
        match self.values.insert(name.to_owned(), value) {
            None => Ok(()),
            Some(_) => Err(self.wrong(name, "is said twice, nested and dotted")),
        }
    }

    pub(super) fn wrong(&self, key: &str, rule: impl Into<String>) -> PModeFileError {
        PModeFileError::Value { file: self.file.to_owned(), key: key.to_owned(), rule: rule.into() }
    }

    pub(super) fn demand<T>(&self, key: &str, value: Option<T>) -> Result<T, PModeFileError> {
        value.ok_or_else(|| PModeFileError::Missing { file: self.file.to_owned(), key: key.to_owned() })
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, PModeFileError> {
        match self.values.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) if !text.trim().is_empty() => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "is a text that is not empty")),
        }
    }

    /// A value that has one form only here; `allowed` lists its spellings.
    pub(super) fn fixed(&mut self, key: &str, allowed: &[&str]) -> Result<(), PModeFileError> {
        let written = match self.values.remove(key) {
            None => return Ok(()),
            Some(Value::String(text)) => text,
            Some(other) => other.to_string(),
        };
        if allowed.contains(&written.as_str()) {
            return Ok(());
        }
        Err(self.wrong(key, format!("can only be {}", allowed.first().unwrap_or(&""))))
    }

    pub(super) fn switch<T>(&mut self, key: &str, on: T, off: T) -> Result<Option<T>, PModeFileError> {
        match self.values.remove(key) {
            None => Ok(None),
            Some(Value::Boolean(true)) => Ok(Some(on)),
            Some(Value::Boolean(false)) => Ok(Some(off)),
            Some(_) => Err(self.wrong(key, "is true or false")),
        }
    }

    pub(super) fn number(&mut self, key: &str) -> Result<Option<u64>, PModeFileError> {
        match self.values.remove(key) {
            None => Ok(None),
            Some(Value::Integer(number)) => {
                u64::try_from(number).map(Some).map_err(|_| self.wrong(key, "is not negative"))
            }
            Some(_) => Err(self.wrong(key, "is a whole number")),
        }
    }

    pub(super) fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>, PModeFileError> {
        let Some(value) = self.values.remove(key) else { return Ok(None) };
        let Value::Array(items) = value else { return Err(self.wrong(key, "is a list of texts")) };
        let read = |item: Value| match item {
            Value::String(text) => Ok(text),
            _ => Err(self.wrong(key, "is a list of texts")),
        };
        items.into_iter().map(read).collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// A table of texts, in the order of its keys.
    pub(super) fn table(&mut self, key: &str) -> Result<Vec<(String, String)>, PModeFileError> {
        let Some(value) = self.values.remove(key) else { return Ok(Vec::new()) };
        let Value::Table(entries) = value else { return Err(self.wrong(key, "is a table of texts")) };
        let read = |(name, value): (String, Value)| match value {
            Value::String(text) => Ok((name, text)),
            _ => Err(self.wrong(key, "is a table of texts")),
        };
        entries.into_iter().map(read).collect()
    }

    pub(super) fn span(&self, key: &str, text: &str) -> Result<Span, PModeFileError> {
        super::duration::parse(text).map_err(|error| self.wrong(key, error.to_string()))
    }

    /// Ends the reading.
    pub(super) fn finish(self) -> Result<(), PModeFileError> {
        match self.values.into_keys().next() {
            None => Ok(()),
            Some(key) => Err(PModeFileError::Unknown { file: self.file.to_owned(), key }),
        }
    }
}
