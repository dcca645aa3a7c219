//! The push reader of a multipart body (RFC 2046 §5.1).
//!
//! A delimiter is CRLF, two dashes, the boundary. Only its first byte is a CR, so a prefix of it that turns
//! out to be data can be handed out without looking back: the next delimiter can begin no earlier than at
//! the byte that differed. That is why no body byte is ever buffered, only counted.

use memchr::{memchr, memmem::Finder, memrchr};

use super::{MimeError, PartHead, head::percent_decoded, transfer::Decoder};

/// Most parts of a package, the root included.
pub const PARTS_MAX: usize = 16;
/// Most bytes of one part's headers, line ends and the empty line included.
pub const HEADER_BYTES_MAX: usize = 8 * 1024;
/// Most bytes of one header line, its line end included.
pub const HEADER_LINE_BYTES_MAX: usize = 4 * 1024;
/// Most blanks behind a boundary, in bytes.
pub const DELIMITER_BLANKS_MAX: usize = 256;

/// What a package may be made of. The length of its bodies is for the caller to bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MimeLimits {
    /// Most parts, the root included.
    pub parts_max: usize,
    /// Most bytes of one part's headers.
    pub header_bytes_max: usize,
    /// Most bytes of one header line.
    pub header_line_bytes_max: usize,
}

impl Default for MimeLimits {
    fn default() -> Self {
        Self {
            parts_max: PARTS_MAX,
            header_bytes_max: HEADER_BYTES_MAX,
            header_line_bytes_max: HEADER_LINE_BYTES_MAX,
        }
    }
}

/// What comes out: for each part one head, data in pieces, one end.
#[derive(Debug, PartialEq, Eq)]
pub enum PartEvent<'a> {
    /// A part begins.
    Head(PartHead),
    /// Some of its body, transfer-decoded; never empty.
    Data(&'a [u8]),
    /// It ended.
    End,
}

/// The caller of a reader.
type On<'a, E> = &'a mut dyn FnMut(PartEvent<'_>) -> Result<(), E>;

/// What a run of bytes between delimiters is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Preamble,
    Body,
}

/// Whether the CRLF of a delimiter that is being matched is data if the match fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    /// It was already consumed: the start of the body, the empty line behind the headers.
    Consumed,
    /// It stands in the section itself.
    Data,
}

/// How the rest of a delimiter line looks so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Nothing yet.
    Bare,
    /// One dash.
    Dash,
    /// Blanks.
    Blanks,
    /// CR, perhaps behind blanks.
    Return,
    /// Two dashes, perhaps with blanks.
    Closing,
    /// Two dashes, perhaps with blanks, and CR.
    ClosingReturn,
}

#[derive(Debug)]
enum State {
    /// Preamble or body; so many bytes of the delimiter matched at the end of what was fed.
    Content { section: Section, matched: usize, anchor: Anchor },
    /// Behind a whole delimiter: is the rest of the line one of a delimiter?
    Line { section: Section, anchor: Anchor, line: Line, tail: Vec<u8> },
    /// In the headers of a part; its last line begins at `line_start`.
    Head { block: Vec<u8>, line_start: usize },
    /// Behind the closing delimiter.
    Epilogue,
    /// An error was given out; also while a state is being left.
    Failed,
}

/// Reads a package, fed in pieces of any size. After an error it takes nothing more and never completes.
#[derive(Debug)]
pub struct PartReader {
    delimiter: Finder<'static>,
    limits: MimeLimits,
    state: State,
    decoder: Decoder,
    parts: usize,
    content_ids: Vec<Vec<u8>>,
}

impl PartReader {
    /// A reader for a boundary as [`package`](super::package) found it.
    #[must_use]
    pub fn new(boundary: &str, limits: MimeLimits) -> Self {
        let delimiter = format!("\r\n--{boundary}");
        Self {
            delimiter: Finder::new(delimiter.as_bytes()).into_owned(),
            limits,
            // The start of the body counts as the start of a line.
            state: State::Content { section: Section::Preamble, matched: 2, anchor: Anchor::Consumed },
            decoder: Decoder::Identity,
            parts: 0,
            content_ids: Vec::new(),
        }
    }

    /// Takes the next piece.
    ///
    /// # Errors
    /// When the package is malformed or beyond a limit, or `on` fails.
    pub fn feed<E: From<MimeError>>(&mut self, bytes: &[u8], on: On<'_, E>) -> Result<(), E> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match std::mem::replace(&mut self.state, State::Failed) {
                State::Content { section, matched, anchor } => {
                    self.content(section, matched, anchor, rest, on)?
                }
                State::Line { section, anchor, line, tail } => {
                    self.line(section, anchor, line, tail, rest, on)?
                }
                State::Head { block, line_start } => self.head(block, line_start, rest, on)?,
                ended @ (State::Epilogue | State::Failed) => {
                    self.state = ended;
                    return Ok(());
                }
            };
        }
        Ok(())
    }

    /// Ends the package.
    ///
    /// # Errors
    /// [`MimeError::NoClosingDelimiter`] when its closing delimiter did not come; what `on` fails with.
    pub fn finish<E: From<MimeError>>(&mut self, on: On<'_, E>) -> Result<(), E> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Epilogue => {
                self.state = State::Epilogue;
                Ok(())
            }
            State::Line { section, line: Line::Closing | Line::ClosingReturn, .. } => self.close(section, on),
            _ => Err(MimeError::NoClosingDelimiter.into()),
        }
    }

    /// Whether the closing delimiter was seen: what follows is epilogue.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        matches!(self.state, State::Epilogue)
    }

    /// Preamble or body: hands out everything up to the next delimiter.
    fn content<'b, E: From<MimeError>>(
        &mut self,
        section: Section,
        mut matched: usize,
        mut anchor: Anchor,
        mut bytes: &'b [u8],
        on: On<'_, E>,
    ) -> Result<&'b [u8], E> {
        let delimiter = self.delimiter.needle();
        if matched > 0 {
            let wanted = delimiter.get(matched..).unwrap_or_default();
            let common = wanted.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            (matched, bytes) = (matched + common, bytes.get(common..).unwrap_or_default());
            if matched < delimiter.len() && !bytes.is_empty() {
                self.unmatched(section, anchor, matched, on)?;
                (matched, anchor) = (0, Anchor::Data);
            }
        }
        if matched == 0 {
            let found = self.delimiter.find(bytes);
            let length = self.delimiter.needle().len();
            let data = found.unwrap_or_else(|| bytes.len() - self.held_back(bytes));
            matched = found.map_or(bytes.len() - data, |_| length);
            let (head, tail) = bytes.split_at_checked(data).unwrap_or((bytes, &[]));
            self.data(section, head, on)?;
            bytes = tail.get(matched..).unwrap_or_default();
        }
        self.state = if matched == self.delimiter.needle().len() {
            State::Line { section, anchor, line: Line::Bare, tail: Vec::new() }
        } else {
            State::Content { section, matched, anchor }
        };
        Ok(bytes)
    }

    /// How many bytes at the end of `bytes` may begin a delimiter.
    fn held_back(&self, bytes: &[u8]) -> usize {
        let delimiter = self.delimiter.needle();
        let window = bytes.len().saturating_sub(delimiter.len() - 1);
        let tail = bytes.get(window..).unwrap_or_default();
        let last = memrchr(b'\r', tail).and_then(|at| tail.get(at..));
        last.filter(|start| delimiter.starts_with(start)).map_or(0, <[u8]>::len)
    }

    /// The first `matched` bytes of a delimiter were data after all.
    fn unmatched<E: From<MimeError>>(
        &mut self,
        section: Section,
        anchor: Anchor,
        matched: usize,
        on: On<'_, E>,
    ) -> Result<(), E> {
        let skip = match anchor {
            Anchor::Consumed => 2,
            Anchor::Data => 0,
        };
        let bytes = self.delimiter.needle().get(skip..matched).unwrap_or_default().to_vec();
        self.data(section, &bytes, on)
    }

    fn data<E: From<MimeError>>(&mut self, section: Section, bytes: &[u8], on: On<'_, E>) -> Result<(), E> {
        match section {
            Section::Preamble => Ok(()),
            Section::Body => self.decoder.push(bytes, &mut |data| on(PartEvent::Data(data))),
        }
    }

    /// The rest of a line that begins with a delimiter: `--b2` is none of `b`, so the whole line counts.
    fn line<'b, E: From<MimeError>>(
        &mut self,
        section: Section,
        anchor: Anchor,
        mut line: Line,
        mut tail: Vec<u8>,
        bytes: &'b [u8],
        on: On<'_, E>,
    ) -> Result<&'b [u8], E> {
        let mut rest = bytes;
        while let [byte, after @ ..] = rest {
            line = match (line, byte) {
                (Line::Bare | Line::Blanks | Line::Return, b'\n') => {
                    return self.open(section, on).map(|()| after);
                }
                (Line::Closing | Line::ClosingReturn, b'\n') => {
                    return self.close(section, on).map(|()| after);
                }
                (Line::Bare, b'-') => Line::Dash,
                (Line::Dash, b'-') => Line::Closing,
                (Line::Bare | Line::Blanks, b' ' | b'\t') => Line::Blanks,
                (Line::Bare | Line::Blanks, b'\r') => Line::Return,
                (Line::Closing, b' ' | b'\t') => Line::Closing,
                (Line::Closing, b'\r') => Line::ClosingReturn,
                _ => {
                    self.no_delimiter(section, anchor, line, &tail, on)?;
                    return Ok(rest);
                }
            };
            let dashes = if matches!(line, Line::Closing) { 2 } else { 0 };
            if matches!(byte, b' ' | b'\t') && tail.len() == DELIMITER_BLANKS_MAX + dashes {
                return Err(MimeError::DelimiterLine(DELIMITER_BLANKS_MAX).into());
            }
            tail.push(*byte);
            rest = after;
        }
        self.state = State::Line { section, anchor, line, tail };
        Ok(rest)
    }

    /// The line only began like a delimiter: it is content. A CR at its end may begin the next one.
    fn no_delimiter<E: From<MimeError>>(
        &mut self,
        section: Section,
        anchor: Anchor,
        line: Line,
        tail: &[u8],
        on: On<'_, E>,
    ) -> Result<(), E> {
        self.unmatched(section, anchor, self.delimiter.needle().len(), on)?;
        let returned = matches!(line, Line::Return | Line::ClosingReturn);
        let content = if returned { tail.strip_suffix(b"\r").unwrap_or(tail) } else { tail };
        self.data(section, content, on)?;
        self.state = State::Content { section, matched: usize::from(returned), anchor: Anchor::Data };
        Ok(())
    }

    fn end_part<E: From<MimeError>>(&mut self, section: Section, on: On<'_, E>) -> Result<(), E> {
        if section == Section::Preamble {
            return Ok(());
        }
        self.decoder.finish(&mut |data| on(PartEvent::Data(data)))?;
        on(PartEvent::End)
    }

    /// A delimiter: the headers of the next part follow.
    fn open<E: From<MimeError>>(&mut self, section: Section, on: On<'_, E>) -> Result<(), E> {
        self.end_part(section, on)?;
        self.parts += 1;
        if self.parts > self.limits.parts_max {
            return Err(MimeError::TooManyParts(self.limits.parts_max).into());
        }
        self.state = State::Head { block: Vec::new(), line_start: 0 };
        Ok(())
    }

    /// The closing delimiter.
    fn close<E: From<MimeError>>(&mut self, section: Section, on: On<'_, E>) -> Result<(), E> {
        self.end_part(section, on)?;
        if self.parts == 0 {
            return Err(MimeError::NoParts.into());
        }
        self.state = State::Epilogue;
        Ok(())
    }

    /// Gathers header lines until the empty one.
    fn head<'b, E: From<MimeError>>(
        &mut self,
        mut block: Vec<u8>,
        line_start: usize,
        bytes: &'b [u8],
        on: On<'_, E>,
    ) -> Result<&'b [u8], E> {
        let end = memchr(b'\n', bytes);
        let taken = end.map_or(bytes.len(), |at| at + 1);
        if block.len() + taken > self.limits.header_bytes_max {
            return Err(MimeError::HeaderTooLong(self.limits.header_bytes_max).into());
        }
        let (taken, rest) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
        block.extend_from_slice(taken);
        if end.is_none() {
            self.state = State::Head { block, line_start };
            return Ok(rest);
        }
        let line = block.get(line_start..).unwrap_or_default();
        if line.len() > self.limits.header_line_bytes_max {
            return Err(MimeError::HeaderLineTooLong(self.limits.header_line_bytes_max).into());
        }
        if matches!(line, b"\n" | b"\r\n") {
            self.begin_part(&block, on)?;
        } else {
            let line_start = block.len();
            self.state = State::Head { block, line_start };
        }
        Ok(rest)
    }

    fn begin_part<E: From<MimeError>>(&mut self, block: &[u8], on: On<'_, E>) -> Result<(), E> {
        let head = PartHead::parse(block)?;
        if let Some(id) = &head.content_id {
            // A reference may be percent-encoded, so ids that differ only by that are the same.
            let decoded = percent_decoded(id.as_str());
            if self.content_ids.contains(&decoded) {
                return Err(MimeError::DuplicateContentId(super::quoted(id.as_str())).into());
            }
            self.content_ids.push(decoded);
        }
        self.decoder = Decoder::new(head.encoding);
        // The empty line may be the one that belongs to the delimiter of an empty body.
        self.state = State::Content { section: Section::Body, matched: 2, anchor: Anchor::Consumed };
        on(PartEvent::Head(head))
    }
}
