//! Chains of error causes: find a type among them, or the text that says most.
//!
//! Knows nothing of any module's errors; callers name the type.

use std::error::Error;
use std::io;

/// Returns the first error of type `E` in the chain of `error`, which itself is the first one looked at.
pub fn find<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        // `io::Error::source` skips the error that it wraps and continues with that one's source. So ask for it.
        let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        next = match wrapped {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

/// Returns the text of the innermost cause, which is usually the specific one.
pub fn innermost_message(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}
