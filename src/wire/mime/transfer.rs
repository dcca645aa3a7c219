//! Content-Transfer-Encoding, undone piece by piece (RFC 2045 §6).

use base64::{Engine as _, engine::general_purpose::STANDARD};
use memchr::{memchr, memchr3};

use super::{MimeError, quoted};

/// How the body of a part is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransferEncoding {
    /// `binary`, `8bit`, `7bit` or not said: the octets themselves.
    #[default]
    Identity,
    /// `base64`.
    Base64,
    /// `quoted-printable`.
    QuotedPrintable,
}

impl TransferEncoding {
    pub(super) fn parse(text: &str) -> Result<Self, MimeError> {
        match text.trim().to_ascii_lowercase().as_str() {
            "binary" | "8bit" | "7bit" => Ok(Self::Identity),
            "base64" => Ok(Self::Base64),
            "quoted-printable" => Ok(Self::QuotedPrintable),
            other => Err(MimeError::TransferEncoding(quoted(other))),
        }
    }
}

/// Where decoded pieces go.
pub(super) type Sink<'a, E> = &'a mut dyn FnMut(&[u8]) -> Result<(), E>;

/// Undoes one part's encoding.
#[derive(Debug)]
pub(super) enum Decoder {
    Identity,
    Base64(Base64Decoder),
    QuotedPrintable(QuotedPrintable),
}

impl Decoder {
    pub(super) fn new(encoding: TransferEncoding) -> Self {
        match encoding {
            TransferEncoding::Identity => Self::Identity,
            TransferEncoding::Base64 => Self::Base64(Base64Decoder::default()),
            TransferEncoding::QuotedPrintable => Self::QuotedPrintable(QuotedPrintable::default()),
        }
    }

    pub(super) fn push<E: From<MimeError>>(&mut self, bytes: &[u8], out: Sink<'_, E>) -> Result<(), E> {
        match self {
            _ if bytes.is_empty() => Ok(()),
            Self::Identity => out(bytes),
            Self::Base64(base64) => base64.push(bytes, || E::from(MimeError::Encoding("base64")), out),
            Self::QuotedPrintable(printable) => {
                let decoded = printable.push(bytes)?;
                if decoded.is_empty() { Ok(()) } else { out(&decoded) }
            }
        }
    }

    pub(super) fn finish<E: From<MimeError>>(&mut self, out: Sink<'_, E>) -> Result<(), E> {
        match self {
            Self::Identity => Ok(()),
            Self::Base64(base64) => base64.finish(|| E::from(MimeError::Encoding("base64")), out),
            Self::QuotedPrintable(printable) => Ok(printable.finish()?),
        }
    }
}

/// How many characters of base64 are decoded at once; a multiple of four.
const BASE64_BLOCK: usize = 8192;

/// Decodes base64 that is broken into lines anywhere. Padding is demanded and ends the data.
#[derive(Debug, Default)]
pub(in crate::wire) struct Base64Decoder {
    pending: Vec<u8>,
    decoded: Vec<u8>,
    ended: bool,
}

impl Base64Decoder {
    /// Takes a piece of base64 text and hands out decoded octets; `invalid` makes the error.
    pub(in crate::wire) fn push<E>(
        &mut self,
        bytes: &[u8],
        invalid: fn() -> E,
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        // Each search is vectorised: several times faster than a test of every octet.
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = memchr3(b'\r', b'\n', b' ', rest);
            let (run, after) = rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or((rest, &[]));
            self.run(run, invalid, out)?;
            rest = after.get(1..).unwrap_or_default();
        }
        Ok(())
    }

    /// Takes text without line ends and blanks.
    fn run<E>(
        &mut self,
        run: &[u8],
        invalid: fn() -> E,
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = run;
        while !rest.is_empty() {
            let end = memchr(b'\t', rest);
            let (run, after) = rest.split_at_checked(end.unwrap_or(rest.len())).unwrap_or((rest, &[]));
            for block in run.chunks(BASE64_BLOCK) {
                if self.ended {
                    return Err(invalid());
                }
                self.pending.extend_from_slice(block);
                if self.pending.len() >= BASE64_BLOCK {
                    self.decode(invalid, out)?;
                }
            }
            rest = after.get(1..).unwrap_or_default();
        }
        Ok(())
    }

    /// Ends the data.
    pub(in crate::wire) fn finish<E>(
        &mut self,
        invalid: fn() -> E,
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.decode(invalid, out)?;
        if self.pending.is_empty() { Ok(()) } else { Err(invalid()) }
    }

    /// Decodes the whole quartets that are there.
    fn decode<E>(
        &mut self,
        invalid: fn() -> E,
        out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let whole = self.pending.len() - self.pending.len() % 4;
        let quartets = self.pending.get(..whole).unwrap_or_default();
        if quartets.is_empty() {
            return Ok(());
        }
        if self.ended {
            return Err(invalid());
        }
        self.ended = quartets.ends_with(b"=");
        self.decoded.clear();
        STANDARD.decode_vec(quartets, &mut self.decoded).map_err(|_| invalid())?;
        self.pending.drain(..whole);
        out(&self.decoded)
    }
}

/// Most blanks that are held back to see whether the line ends behind them, in bytes.
const BLANKS_MAX: usize = 1024;

/// Where in an escape the text stands.
#[derive(Debug, Default, Clone, Copy)]
enum Escape {
    #[default]
    None,
    /// Behind `=`.
    Begun,
    /// Behind `=` and a hexadecimal digit.
    High(u8),
    /// Behind `=` and blanks: only the end of the line may follow.
    Blanks,
    /// Behind `=` and CR.
    Return,
}

/// Decodes quoted-printable (RFC 2045 §6.7); blanks at the end of a line are transport padding.
#[derive(Debug, Default)]
pub(super) struct QuotedPrintable {
    escape: Escape,
    blanks: Vec<u8>,
}

impl QuotedPrintable {
    const INVALID: MimeError = MimeError::Encoding("quoted-printable");

    fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, MimeError> {
        let mut out = Vec::with_capacity(bytes.len());
        for byte in bytes {
            self.take(*byte, &mut out)?;
        }
        Ok(out)
    }

    fn take(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), MimeError> {
        self.escape = match (self.escape, byte) {
            (Escape::None, _) => return self.plain(byte, out),
            (Escape::Begun, b' ' | b'\t') | (Escape::Blanks, b' ' | b'\t') => Escape::Blanks,
            (Escape::Begun | Escape::Blanks, b'\r') => Escape::Return,
            (Escape::Begun | Escape::Blanks | Escape::Return, b'\n') => Escape::None,
            (Escape::Begun, _) => Escape::High(digit(byte)?),
            (Escape::High(high), _) => {
                out.push(high << 4 | digit(byte)?);
                Escape::None
            }
            (Escape::Blanks | Escape::Return, _) => return Err(Self::INVALID),
        };
        Ok(())
    }

    fn plain(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<(), MimeError> {
        match byte {
            b' ' | b'\t' if self.blanks.len() == BLANKS_MAX => return Err(Self::INVALID),
            b' ' | b'\t' => self.blanks.push(byte),
            b'\r' | b'\n' => {
                self.blanks.clear();
                out.push(byte);
            }
            _ => {
                out.append(&mut self.blanks);
                match byte {
                    b'=' => self.escape = Escape::Begun,
                    _ => out.push(byte),
                }
            }
        }
        Ok(())
    }

    const fn finish(&self) -> Result<(), MimeError> {
        match self.escape {
            Escape::High(_) => Err(Self::INVALID),
            _ => Ok(()),
        }
    }
}

fn digit(byte: u8) -> Result<u8, MimeError> {
    let value = char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    value.ok_or(QuotedPrintable::INVALID)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(encoding: TransferEncoding, text: &[u8], piece: usize) -> Result<Vec<u8>, MimeError> {
        let mut decoder = Decoder::new(encoding);
        let mut out = Vec::new();
        let mut sink = |bytes: &[u8]| -> Result<(), MimeError> {
            out.extend_from_slice(bytes);
            Ok(())
        };
        text.chunks(piece).try_for_each(|chunk| decoder.push(chunk, &mut sink))?;
        decoder.finish(&mut sink)?;
        Ok(out)
    }

    fn check(encoding: TransferEncoding, text: &[u8], expected: Option<&[u8]>) {
        for piece in 1..=text.len().max(1) {
            let got = decode(encoding, text, piece).ok();
            assert_eq!(got.as_deref(), expected, "{} by {piece}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn quoted_printable_is_undone() {
        let printable = TransferEncoding::QuotedPrintable;
        check(printable, b"a=3Db=3d", Some(b"a=b="));
        check(printable, b"a =\r\n b", Some(b"a  b"));
        check(printable, b"a= \t\r\nb=\nc=", Some(b"abc"));
        check(printable, b"a \t\r\n b \n", Some(b"a\r\n b\n"));
        for wrong in [&b"=G0"[..], b"=1", b"=1G", b"= x", b"=\rx"] {
            check(printable, wrong, None);
        }
    }

    #[test]
    fn blanks_are_held_back_to_the_limit_and_not_beyond() {
        let blanks = |n: usize| [vec![b' '; n], b"x".to_vec()].concat();
        let printable = TransferEncoding::QuotedPrintable;
        assert_eq!(decode(printable, &blanks(BLANKS_MAX), 7), Ok(blanks(BLANKS_MAX)));
        assert_eq!(decode(printable, &blanks(BLANKS_MAX + 1), 7), Err(QuotedPrintable::INVALID));
    }

    #[test]
    fn base64_is_undone_whatever_its_lines_are() {
        let base64 = TransferEncoding::Base64;
        check(base64, b"", Some(b""));
        check(base64, b"b25l\r\nUG9p\nbn\tQ=", Some(b"onePoint"));
        check(base64, b"b25lUG9pbnQ= \r\n", Some(b"onePoint"));
        for wrong in [&b"b25"[..], b"b25l=", b"bg==bg==", b"bg=a", b"b2\0l", b"bh==", b"===="] {
            check(base64, wrong, None);
        }
        let long: Vec<u8> = (0..=255_u8).cycle().take(3 * BASE64_BLOCK + 1).collect();
        let text = STANDARD.encode(&long);
        for piece in [1, 3, BASE64_BLOCK - 1, BASE64_BLOCK, text.len()] {
            assert_eq!(decode(base64, text.as_bytes(), piece).as_deref(), Ok(&long[..]));
        }
    }
}
