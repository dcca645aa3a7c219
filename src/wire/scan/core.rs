//! The state machine over decoded characters.

use super::event::{ScanEvent, Span};
use super::names::{NameLimits, Scope, TagFault};
use super::text::Text;
use super::token::{Found, Seek, SeekFault};
use super::{ScanError, ScanLimits};
use crate::wire::xml::chars::{illegal_char, is_blank, reference};
use crate::wire::xml::encoding::{Sniffed, XML_DECLARATION_BYTES_MAX, declaration_too_long};
use crate::wire::xml::markup::{comment, instruction, is_xml_declaration, xml_declaration};
use crate::wire::xml::{LimitKind, Violation};

/// Who is told of events; its error stops the scanner.
pub(super) type Handler<'h, E> = dyn FnMut(ScanEvent<'_>) -> Result<(), E> + 'h;

/// What is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Text, or white space outside the document element.
    Text,
    /// A token; what came of it is held.
    Token(Seek),
    /// The content of a CDATA section.
    Cdata,
}

/// Where in the document the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Prolog,
    Root,
    Epilog,
}

#[derive(Debug)]
pub(super) struct Core {
    sniffed: Sniffed,
    token_bytes_max: usize,
    mode: Mode,
    place: Place,
    /// Offset in the input of the next character.
    position: u64,
    token_start: u64,
    /// A token that is not complete.
    held: String,
    scope: Scope,
    text: Text,
}

impl Core {
    pub(super) fn new(sniffed: Sniffed, limits: ScanLimits) -> Self {
        let names = NameLimits {
            depth_max: limits.depth_max,
            attributes_max: limits.attributes_max,
            namespaces_max: limits.namespaces_max,
            namespace_names: limits.namespace_names,
        };
        Self {
            sniffed,
            token_bytes_max: limits.token_bytes_max,
            mode: Mode::Text,
            place: Place::Start,
            position: sniffed.mark_bytes as u64,
            token_start: 0,
            held: String::new(),
            scope: Scope::new(names),
            text: Text::new(sniffed.encoding),
        }
    }

    /// Reads the next piece of the document.
    pub(super) fn push<E: From<ScanError>>(&mut self, piece: &str, on: &mut Handler<'_, E>) -> Result<(), E> {
        let Some(at) = illegal_char(piece) else { return self.read(piece, on) };
        self.read(piece.get(..at).unwrap_or(""), on)?;
        Err(self.broken(Violation::Character).into())
    }

    /// Nothing may be open at the end.
    pub(super) fn finish(&self) -> Result<(), ScanError> {
        if self.mode != Mode::Text || self.place == Place::Root {
            return Err(self.broken(Violation::Unclosed));
        }
        if self.place == Place::Epilog { Ok(()) } else { Err(self.broken(Violation::NoRoot)) }
    }

    fn read<E: From<ScanError>>(&mut self, piece: &str, on: &mut Handler<'_, E>) -> Result<(), E> {
        let mut rest = piece;
        while !rest.is_empty() {
            let taken = match self.mode {
                Mode::Text => self.read_text(rest, on)?,
                Mode::Token(seek) => self.read_token(rest, seek, on)?,
                Mode::Cdata => {
                    let read = self.text.cdata(rest, &mut self.position, on)?;
                    if read.closed {
                        self.mode = Mode::Text;
                    }
                    read.taken
                }
            };
            rest = rest.get(taken..).unwrap_or("");
        }
        Ok(())
    }

    fn read_text<E: From<ScanError>>(&mut self, rest: &str, on: &mut Handler<'_, E>) -> Result<usize, E> {
        let end = memchr::memchr2(b'<', b'&', rest.as_bytes());
        let run = rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest);
        if !run.is_empty() {
            if self.place == Place::Root {
                self.text.run(run, &mut self.position, on)?;
            } else {
                self.settle_declaration(None)?;
                self.outside(run)?;
            }
        }
        if end.is_some() {
            self.text.end(on)?;
            self.mode = Mode::Token(Seek::Unknown);
            self.token_start = self.position;
        }
        Ok(run.len())
    }

    fn outside(&mut self, run: &str) -> Result<(), ScanError> {
        if !is_blank(run) {
            return Err(self.broken(Violation::TextOutsideRoot));
        }
        self.position += self.width(run);
        Ok(())
    }

    fn read_token<E: From<ScanError>>(
        &mut self,
        rest: &str,
        mut seek: Seek,
        on: &mut Handler<'_, E>,
    ) -> Result<usize, E> {
        let found = seek.advance(&self.held, rest).map_err(|fault| match fault {
            SeekFault::Doctype => ScanError::Doctype,
            SeekFault::Rule(rule) => self.broken(rule),
        })?;
        let taken = match found {
            Found::End(end) => end,
            Found::More => rest.len(),
        };
        if self.held.len() + taken > self.token_bytes_max {
            return Err(ScanError::Limit { kind: LimitKind::Token, max: self.token_bytes_max }.into());
        }
        let part = rest.get(..taken).unwrap_or(rest);
        self.position += self.width(part);
        if found == Found::More {
            self.mode = Mode::Token(seek);
            self.held.push_str(part);
        } else {
            self.mode = Mode::Text;
            self.complete(part, on)?;
        }
        Ok(taken)
    }

    /// Handles a token of which `part` is the rest.
    fn complete<E: From<ScanError>>(&mut self, part: &str, on: &mut Handler<'_, E>) -> Result<(), E> {
        if self.held.is_empty() {
            return self.token(part, on);
        }
        let mut whole = std::mem::take(&mut self.held);
        whole.push_str(part);
        self.token(&whole, on)?;
        whole.clear();
        self.held = whole;
        Ok(())
    }

    fn token<E: From<ScanError>>(&mut self, token: &str, on: &mut Handler<'_, E>) -> Result<(), E> {
        let inside = |open: usize, close: usize| token.get(open..token.len() - close).unwrap_or("");
        if token.starts_with("<?") && is_xml_declaration(inside(2, 2)) {
            return Ok(self.declaration(inside(2, 2))?);
        }
        self.settle_declaration(None)?;
        match token.as_bytes() {
            [b'&', ..] => self.reference(inside(1, 1), on),
            [b'<', b'?', ..] => {
                let (target, data) = instruction(inside(2, 2)).map_err(|rule| self.broken(rule))?;
                let span = self.span();
                self.text
                    .with_line_ends(data, |data| on(ScanEvent::ProcessingInstruction { target, data, span }))
            }
            [b'<', b'!', b'-', ..] => {
                comment(inside(4, 3)).map_err(|rule| self.broken(rule))?;
                let span = self.span();
                self.text.with_line_ends(inside(4, 3), |text| on(ScanEvent::Comment { text, span }))
            }
            [b'<', b'!', ..] => Ok(self.open_cdata()?),
            [b'<', b'/', ..] => self.end_tag(inside(2, 1), on),
            _ => self.start_tag(token, on),
        }
    }

    fn declaration(&mut self, content: &str) -> Result<(), ScanError> {
        if self.place != Place::Start {
            return Err(self.broken(Violation::DeclarationPlace));
        }
        if content.len() + "<??>".len() > XML_DECLARATION_BYTES_MAX {
            return Err(declaration_too_long().into());
        }
        let encoding = xml_declaration(content).map_err(|rule| self.broken(rule))?;
        self.settle_declaration(encoding)
    }

    /// Compares the declared encoding, once it is known whether there is one, with that of the bytes.
    fn settle_declaration(&mut self, encoding: Option<&str>) -> Result<(), ScanError> {
        if self.place == Place::Start {
            self.place = Place::Prolog;
            self.sniffed.check_declared(encoding)?;
        }
        Ok(())
    }

    fn reference<E: From<ScanError>>(&self, name: &str, on: &mut Handler<'_, E>) -> Result<(), E> {
        let c = reference(name).map_err(|rule| self.broken(rule))?;
        if self.place != Place::Root {
            return Err(self.broken(Violation::TextOutsideRoot).into());
        }
        on(ScanEvent::Text { text: c.encode_utf8(&mut [0; 4]), span: self.span() })
    }

    fn open_cdata(&mut self) -> Result<(), ScanError> {
        if self.place != Place::Root {
            return Err(self.broken(Violation::TextOutsideRoot));
        }
        self.mode = Mode::Cdata;
        Ok(())
    }

    fn start_tag<E: From<ScanError>>(&mut self, token: &str, on: &mut Handler<'_, E>) -> Result<(), E> {
        if self.place == Place::Epilog {
            return Err(self.broken(Violation::SecondRoot).into());
        }
        let empty = token.ends_with("/>");
        let content = token.get(1..token.len() - 1 - usize::from(empty)).unwrap_or("");
        self.scope.open(content).map_err(|fault| match fault {
            TagFault::Limit { kind, max } => ScanError::Limit { kind, max },
            TagFault::Rule(rule) => self.broken(rule),
        })?;
        self.place = Place::Root;
        let name = self.scope.name();
        let name_bytes = name.prefix.len() + usize::from(!name.prefix.is_empty()) + name.local.len();
        let to_name_end = token.get(..1 + name_bytes).unwrap_or("");
        let span = self.span();
        on(ScanEvent::Start {
            name,
            attributes: self.scope.attributes(),
            declarations: self.scope.own_declarations(),
            in_scope: self.scope.declarations_in_scope(),
            span,
            name_end: self.token_start + self.width(to_name_end),
            empty,
        })?;
        if empty { self.close(Span { start: span.end, end: span.end }, on) } else { Ok(()) }
    }

    fn end_tag<E: From<ScanError>>(&mut self, content: &str, on: &mut Handler<'_, E>) -> Result<(), E> {
        if !self.scope.is_innermost(content.trim_end_matches([' ', '\t', '\r', '\n'])) {
            return Err(self.broken(Violation::EndTag).into());
        }
        self.close(self.span(), on)
    }

    fn close<E: From<ScanError>>(&mut self, span: Span, on: &mut Handler<'_, E>) -> Result<(), E> {
        on(ScanEvent::End { name: self.scope.name(), span })?;
        self.scope.close();
        if self.scope.depth() == 0 {
            self.place = Place::Epilog;
        }
        Ok(())
    }

    /// The token that was just read.
    fn span(&self) -> Span {
        Span { start: self.token_start, end: self.position }
    }

    fn width(&self, part: &str) -> u64 {
        self.sniffed.encoding.width(part) as u64
    }

    fn broken(&self, rule: Violation) -> ScanError {
        ScanError::Malformed { rule, at: self.position }
    }
}
