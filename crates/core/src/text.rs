//! The shared strings that records are made of: identifiers and free texts.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::{Error, Result};

/// The longest identifier, in bytes of UTF-8. It keeps every composite key well under the engines' own limits.
pub const MAX_ID_BYTES: usize = 512;

macro_rules! shared_str {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(text.into())
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                $name(text.into())
            }
        }
        impl From<&String> for $name {
            fn from(text: &String) -> Self {
                $name(text.as_str().into())
            }
        }
        impl From<&$name> for $name {
            fn from(text: &$name) -> Self {
                text.clone()
            }
        }
        impl From<Arc<str>> for $name {
            fn from(text: Arc<str>) -> Self {
                $name(text)
            }
        }
        impl From<$name> for Arc<str> {
            fn from(text: $name) -> Self {
                text.0
            }
        }
        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }
        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}
shared_str! {
    /// An identifier: 1 to 512 bytes of UTF-8 without NUL, compared byte for byte.
    ///
    /// Making one never fails; the rule is checked when a command or query that holds it is executed, so that the
    /// error can name the field.
    ///
    /// ```
    /// let id = runledger_core::Id::from("order-17");
    /// assert_eq!(id, "order-17");
    /// ```
    Id
}

shared_str! {
    /// Any Unicode text, NUL included, kept exactly. The empty text is a value, not absence.
    ///
    /// ```
    /// let text = runledger_core::Text::from("worker gone");
    /// assert_eq!(text.len(), 11);
    /// ```
    Text
}

impl Id {
    /// Checks the identifier rule; `field` is named in the error.
    ///
    /// # Errors
    /// `invalid_input` for an empty identifier, one over [`MAX_ID_BYTES`] bytes, or one with a NUL.
    pub fn check(&self, field: &str) -> Result<()> {
        if self.is_empty() {
            Err(Error::invalid(field, "an identifier can't be empty"))
        } else if self.len() > MAX_ID_BYTES {
            let len = self.len();
            Err(Error::invalid(field, format_args!("an identifier has at most {MAX_ID_BYTES} bytes, this one {len}")))
        } else if self.as_bytes().contains(&0) {
            Err(Error::invalid(field, "an identifier can't hold the character NUL"))
        } else {
            Ok(())
        }
    }
}
