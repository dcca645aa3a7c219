mod algorithms;
mod coverage;
mod signing;
mod wrapping;
