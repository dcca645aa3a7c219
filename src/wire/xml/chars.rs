//! Characters, names and references of XML 1.0 (fifth edition).

use super::error::Violation;

/// Bytes looked at in one go when searching for characters that are not allowed.
const STRIDE_BYTES: usize = 1024;

/// XML §2.3, production S.
pub(in crate::wire) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Whether a text is nothing but white space.
pub(in crate::wire) fn is_blank(text: &str) -> bool {
    text.bytes().all(is_space)
}

/// The text without white space at its start.
pub(in crate::wire) fn trim_start(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\r', '\n'])
}

/// Where the first character stands that is no Char of XML §2.2; `None` when all are.
pub(in crate::wire) fn illegal_char(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    for stride in bytes.chunks(STRIDE_BYTES) {
        // One branch-free pass that the compiler turns into vector code; the exact look is rare.
        let suspicious =
            stride.iter().fold(false, |seen, &byte| seen | (byte < 0x20) & !is_space(byte) | (byte == 0xEF));
        if suspicious && let Some(found) = illegal_in(bytes, at, at + stride.len()) {
            return Some(found);
        }
        at += stride.len();
    }
    None
}

fn illegal_in(bytes: &[u8], start: usize, end: usize) -> Option<usize> {
    let noncharacter = |at: usize| {
        // U+FFFE and U+FFFF are EF BF BE and EF BF BF.
        bytes.get(at + 1) == Some(&0xBF) && bytes.get(at + 2).is_some_and(|&last| last >= 0xBE)
    };
    (start..end).find(|&at| match bytes.get(at) {
        Some(&byte) if byte < 0x20 => !is_space(byte),
        Some(0xEF) => noncharacter(at),
        _ => false,
    })
}

const fn is_name_start(c: char) -> bool {
    matches!(c,
        'A'..='Z' | '_' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

const fn is_name_char(c: char) -> bool {
    is_name_start(c)
        || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

/// Namespaces §3, production `NCName`.
pub(in crate::wire) fn is_ncname(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(is_name_start) && chars.all(is_name_char)
}

/// Prefix (may be empty) and local part of a `QName` (Namespaces §4).
pub(in crate::wire) fn split_qname(name: &str) -> Result<(&str, &str), Violation> {
    let (prefix, local) = match memchr::memchr(b':', name.as_bytes()) {
        None => ("", name),
        Some(at) => {
            let prefix = name.get(..at).unwrap_or("");
            if !is_ncname(prefix) {
                return Err(Violation::Name);
            }
            (prefix, name.get(at + 1..).unwrap_or(""))
        }
    };
    if is_ncname(local) { Ok((prefix, local)) } else { Err(Violation::Name) }
}

/// What stands between `&` and `;` (XML §4.1, §4.6).
pub(in crate::wire) fn reference(name: &str) -> Result<char, Violation> {
    let code = match name.as_bytes() {
        b"lt" => return Ok('<'),
        b"gt" => return Ok('>'),
        b"amp" => return Ok('&'),
        b"quot" => return Ok('"'),
        b"apos" => return Ok('\''),
        [b'#', b'x', digits @ ..] => number(digits, 16),
        [b'#', digits @ ..] => number(digits, 10),
        _ => None,
    };
    let allowed = |c: &char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..);
    code.and_then(char::from_u32).filter(allowed).ok_or(Violation::Reference)
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    if digits.is_empty() {
        return None;
    }
    // `from_str_radix` would also take a sign.
    digits.iter().try_fold(0_u32, |sum, &digit| {
        let value = char::from(digit).to_digit(radix)?;
        sum.checked_mul(radix)?.checked_add(value)
    })
}

/// Appends a text with its line ends made one LF each (XML §2.11).
pub(in crate::wire) fn push_line_ends(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\r', rest.as_bytes()) {
        out.push_str(rest.get(..at).unwrap_or(""));
        out.push('\n');
        let after = rest.get(at + 1..).unwrap_or("");
        rest = after.strip_prefix('\n').unwrap_or(after);
    }
    out.push_str(rest);
}
