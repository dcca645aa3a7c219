//! Finds where a tag, reference, comment or instruction ends, over any number of pieces.

use crate::wire::xml::Violation;

const COMMENT_OPEN: &[u8] = b"<!--";
const CDATA_OPEN: &[u8] = b"<![CDATA[";
const DOCTYPE_OPEN: &[u8] = b"<!DOCTYPE";

/// What kind of token is being read, and how much of its end has been seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seek {
    /// `<` has come, and too little behind it to tell.
    Unknown,
    /// A tag; inside of quotes when there is one.
    Tag { quote: Option<u8> },
    /// `&…;`
    Reference,
    /// `<!--…-->`, by hyphens seen last.
    Comment { hyphens: u8 },
    /// `<?…?>`, by whether a question mark was seen last.
    Instruction { question: bool },
}

/// Where a token ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Behind so many bytes of the piece.
    End(usize),
    /// In no piece so far.
    More,
}

/// Why no end is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SeekFault {
    Doctype,
    Rule(Violation),
}

enum Opened {
    /// The token is of this kind; its delimiter has so many bytes.
    As(Seek, usize),
    /// `<![CDATA[`
    Cdata,
    More,
}

impl Seek {
    /// Looks for the end in the next piece; `held` is what came of the token before it.
    pub(super) fn advance(&mut self, held: &str, piece: &str) -> Result<Found, SeekFault> {
        let mut from = 0;
        if *self == Self::Unknown {
            match open(held.as_bytes(), piece.as_bytes())? {
                Opened::More => return Ok(Found::More),
                Opened::Cdata => return Ok(Found::End(CDATA_OPEN.len().saturating_sub(held.len()))),
                Opened::As(seek, length) => {
                    *self = seek;
                    from = length.saturating_sub(held.len());
                }
            }
        }
        let found = self.find(piece.as_bytes().get(from..).unwrap_or(&[])).map_err(SeekFault::Rule)?;
        Ok(found.map_or(Found::More, |end| Found::End(from + end)))
    }

    /// How many bytes it takes to the end of the token.
    fn find(&mut self, bytes: &[u8]) -> Result<Option<usize>, Violation> {
        let last = match self {
            Self::Unknown => None,
            Self::Reference => match memchr::memchr3(b';', b'&', b'<', bytes) {
                Some(at) if bytes.get(at) != Some(&b';') => return Err(Violation::Reference),
                found => found,
            },
            Self::Tag { quote } => tag_end(quote, bytes),
            Self::Comment { hyphens } => bytes.iter().position(|&byte| match byte {
                b'-' => {
                    *hyphens = hyphens.saturating_add(1).min(2);
                    false
                }
                byte => std::mem::take(hyphens) == 2 && byte == b'>',
            }),
            Self::Instruction { question } => bytes.iter().position(|&byte| {
                let before = std::mem::replace(question, byte == b'?');
                before && byte == b'>'
            }),
        };
        Ok(last.map(|last| last + 1))
    }
}

fn tag_end(quote: &mut Option<u8>, bytes: &[u8]) -> Option<usize> {
    for at in memchr::memchr3_iter(b'>', b'\'', b'"', bytes) {
        match (bytes.get(at).copied(), *quote) {
            (Some(b'>'), None) => return Some(at),
            (Some(b'>'), Some(_)) => {}
            (opening, None) => *quote = opening,
            (closing, open) if closing == open => *quote = None,
            _ => {}
        }
    }
    None
}

/// Tells what a token is from its first bytes.
fn open(held: &[u8], piece: &[u8]) -> Result<Opened, SeekFault> {
    let mut head = [0; CDATA_OPEN.len()];
    let mut length = 0;
    for (slot, &byte) in head.iter_mut().zip(held.iter().chain(piece)) {
        *slot = byte;
        length += 1;
    }
    let head = head.get(..length).unwrap_or(&[]);
    match head {
        [b'<'] | [] => return Ok(Opened::More),
        [b'&', ..] => return Ok(Opened::As(Seek::Reference, 1)),
        [b'<', b'?', ..] => return Ok(Opened::As(Seek::Instruction { question: false }, 2)),
        [b'<', b'!', ..] => {}
        _ => return Ok(Opened::As(Seek::Tag { quote: None }, 1)),
    }
    if head.starts_with(COMMENT_OPEN) {
        Ok(Opened::As(Seek::Comment { hyphens: 0 }, COMMENT_OPEN.len()))
    } else if head == CDATA_OPEN {
        Ok(Opened::Cdata)
    } else if head.eq_ignore_ascii_case(DOCTYPE_OPEN) {
        Err(SeekFault::Doctype)
    } else if is_start_of_any(head) {
        Ok(Opened::More)
    } else {
        Err(SeekFault::Rule(Violation::Markup))
    }
}

fn is_start_of_any(head: &[u8]) -> bool {
    let doctype = DOCTYPE_OPEN.get(..head.len()).is_some_and(|start| start.eq_ignore_ascii_case(head));
    doctype || COMMENT_OPEN.starts_with(head) || CDATA_OPEN.starts_with(head)
}
