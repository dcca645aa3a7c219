//! `eb:Messaging`: reader and writer.
