//! Random documents, well-formed and damaged, from a seed.

/// A repeatable source of numbers (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> &'t T {
        from[self.below(from.len())]
    }
}

const PREFIXES: &[&str] = &["", "", "a", "b", "c", "wsu", "S12"];
const URIS: &[&str] = &["urn:one", "urn:two", "http://example.org/three", "urn:one#x", "", "urn:z?q=1;2"];
const LOCALS: &[&str] = &["e", "f", "Id", "Body", "é", "a.b-c", "_", "xml"];
const ATTRIBUTES: &[&str] = &["p", "q", "Id", "P", "é", "mustUnderstand", "lang"];
const TEXTS: &[&str] = &[
    "x",
    " ",
    "word",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\r\r\n",
    "&amp;",
    "&lt;",
    "&gt;",
    "&#13;",
    "&#xD;",
    "&#10;",
    "&#9;",
    "&quot;",
    "&apos;",
    "é",
    "𝄞",
    ">",
    "\"",
    "'",
    "\u{A0}",
    "\u{85}",
    "\u{2028}",
    "\u{FEFF}",
    "]]",
    "]",
    "]]&gt;",
    "&#x10FFFF;",
    "&#x00000041;",
    "<![CDATA[<x>&\r\ny]]>",
    "<![CDATA[]]>",
    "<![CDATA[]]]]>",
    "<![CDATA[\r]]>",
    "<![CDATA[>]]>",
    "<!-- c\r\n -->",
    "<!---->",
    "<!--->-->",
    "<?p  d ?>",
    "<?p?>",
    "<?p-q \r\n\td\re?>",
    "<?x ? > ?>",
];
const VALUES: &[&str] = &[
    "x",
    " ",
    "  ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "&amp;",
    "&lt;",
    "&gt;",
    "&#13;",
    "&#10;",
    "&#9;",
    "&#32;",
    "&quot;",
    "&apos;",
    "é",
    "𝄞",
    ">",
    "\u{A0}",
    "\u{85}",
    "]]>",
    "http://x/?a=b",
];
const GAPS: &[&str] = &[" ", " ", "  ", "\n", "\r\n\t", "\t"];
const AROUND: &[&str] =
    &["", "\n", " \r\n", "<!--x-->", "<?q r?>", "<?q?>\n<!-- y -->", "<?q  r\r\ns ?>\r<?z?>"];

/// A well-formed and namespace-well-formed document.
pub(crate) fn document(random: &mut Random) -> String {
    let mut out = String::new();
    if random.once_in(3) {
        out.push_str(random.pick(&["<?xml version=\"1.0\"?>", "<?xml version='1.0'  standalone='yes' ?>"]));
    }
    out.push_str(random.pick(AROUND));
    element(random, 0, &mut Vec::new(), &mut out);
    out.push_str(random.pick(AROUND));
    out
}

type Bindings = Vec<(&'static str, &'static str)>;

fn bound(scope: &Bindings, prefix: &str) -> Option<&'static str> {
    match prefix {
        "xml" => Some("XML"),
        _ => scope.iter().rev().find(|binding| binding.0 == prefix).map(|binding| binding.1),
    }
}

fn element(random: &mut Random, depth: usize, scope: &mut Bindings, out: &mut String) {
    let outer = scope.len();
    let mut items = declarations(random, scope);
    let usable: Vec<&'static str> = PREFIXES
        .iter()
        .copied()
        .filter(|prefix| prefix.is_empty() || bound(scope, prefix).is_some())
        .collect();
    let prefix = if random.once_in(40) { "xml" } else { random.pick(&usable) };
    let name = qualified(prefix, random.pick(LOCALS));
    items.extend(attributes(random, scope, &usable));
    out.push('<');
    out.push_str(&name);
    while !items.is_empty() {
        out.push_str(random.pick(GAPS));
        out.push_str(&items.swap_remove(random.below(items.len())));
    }
    if random.once_in(5) {
        out.push_str(random.pick(GAPS));
    }
    if random.once_in(5) {
        out.push_str("/>");
    } else {
        out.push('>');
        texts(random, out);
        let children = if depth < 4 { random.below(4) } else { 0 };
        for _ in 0..children {
            element(random, depth + 1, scope, out);
            texts(random, out);
        }
        out.push_str("</");
        out.push_str(&name);
        if random.once_in(8) {
            out.push_str(random.pick(GAPS));
        }
        out.push('>');
    }
    scope.truncate(outer);
}

fn declarations(random: &mut Random, scope: &mut Bindings) -> Vec<String> {
    let outer = scope.len();
    let mut items = Vec::new();
    for _ in 0..random.below(4) {
        let (prefix, uri) = (random.pick(PREFIXES), random.pick(URIS));
        let repeated = scope[outer..].iter().any(|binding| binding.0 == prefix);
        if repeated || (uri.is_empty() && !prefix.is_empty()) {
            continue;
        }
        scope.push((prefix, uri));
        items.push(if prefix.is_empty() {
            format!("xmlns='{uri}'")
        } else {
            format!("xmlns:{prefix} =\"{uri}\"")
        });
    }
    items
}

fn attributes(random: &mut Random, scope: &Bindings, usable: &[&'static str]) -> Vec<String> {
    let mut used: Vec<(&str, &str)> = Vec::new();
    let mut items = Vec::new();
    for _ in 0..random.below(5) {
        let prefix = if random.once_in(8) { "xml" } else { random.pick(usable) };
        let local = if prefix == "xml" { "lang" } else { random.pick(ATTRIBUTES) };
        let uri = if prefix.is_empty() { "" } else { bound(scope, prefix).unwrap_or("") };
        if used.contains(&(uri, local)) {
            continue;
        }
        used.push((uri, local));
        let value: String = (0..random.below(5)).map(|_| random.pick(VALUES)).collect();
        let quote = random.pick(&["\"", "'"]);
        let equals = random.pick(&["=", "=", " = ", "\n="]);
        items.push(format!("{}{equals}{quote}{value}{quote}", qualified(prefix, local)));
    }
    items
}

fn qualified(prefix: &str, local: &str) -> String {
    if prefix.is_empty() { local.to_owned() } else { format!("{prefix}:{local}") }
}

fn texts(random: &mut Random, out: &mut String) {
    for _ in 0..random.below(5) {
        let text = random.pick(TEXTS);
        // `]]>` must not come about.
        if !(text.starts_with('>') && out.ends_with("]]")) {
            out.push_str(text);
        }
    }
}

const DAMAGE: &[u8] = b"<>&;\"'=:/!?-[] \r\n\txa#0\x01\x0B\x7F\xC3\xEF";

/// Damages a document in one to three places; it may well stay a document.
pub(crate) fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(3) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => {
                bytes.remove(at);
            }
            1 => bytes[at] = DAMAGE[random.below(DAMAGE.len())],
            2 => bytes.insert(at, DAMAGE[random.below(DAMAGE.len())]),
            3 => bytes.truncate(at.max(bytes.len().saturating_sub(9))),
            4 => {
                let end = bytes.len().min(at + 1 + random.below(12));
                let copied: Vec<u8> = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, copied);
            }
            _ => {
                let end = bytes.len().min(at + 1 + random.below(6));
                bytes.drain(at..end);
            }
        }
    }
}
