//! Statuses of HTTP and the errors of handlers, translated into each other.

/// The error of a handler that did not answer in time.
pub const UPSTREAM_TIMEOUT: &str = "UPSTREAM_TIMEOUT";

const STATUSES: [(&str, u16); 11] = [
    ("BAD_REQUEST", 400),
    ("UNAUTHENTICATED", 401),
    ("UNAUTHORIZED", 403),
    ("NOT_FOUND", 404),
    ("REQUEST_TIMEOUT", 408),
    ("CONFLICT", 409),
    ("RESOURCE_EXHAUSTED", 429),
    ("INTERNAL", 500),
    ("NOT_IMPLEMENTED", 501),
    ("UNAVAILABLE", 503),
    (UPSTREAM_TIMEOUT, 520),
];

/// The status of an error. An unknown error is an internal one.
pub fn status_of(error_type: &str) -> u16 {
    STATUSES.iter().find(|(known, _)| *known == error_type).map_or(500, |(_, status)| *status)
}

/// The error that a status stands for; `None` if it stands for none.
pub fn error_type_of(status: u16) -> Option<&'static str> {
    STATUSES.iter().find(|(_, known)| *known == status).map(|(error_type, _)| *error_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_statuses_and_back() {
        for (error_type, status) in STATUSES {
            assert_eq!((status_of(error_type), error_type_of(status)), (status, Some(error_type)));
        }
        assert_eq!((status_of("odd"), error_type_of(302)), (500, None));
    }
}
