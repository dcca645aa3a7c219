//! The one XML tree.
