//! Rules of the Peppol network.
