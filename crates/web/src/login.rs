//! Login: a browser without a certificate sends a key once and keeps it in a cookie that scripts cannot read.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use maud::{Markup, html};

use super::{Web, WebBody, forms::Form, guard, html as respond, layout, redirect};

/// Where the form is sent.
pub const LOGIN: &str = "/ui/login";
/// Where the cookie is given up.
pub const LOGOUT: &str = "/ui/logout";
/// Has the key.
const COOKIE: &str = "segno_key";
/// Keys and tokens are shorter.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// The content of the login form: the key, and the address to go on with.
pub fn read(body: &[u8]) -> Option<(String, String)> {
    let form = Form::parse(std::str::from_utf8(body).ok()?)?;
    let (key, next) = (form.get("key").trim(), form.get("next"));
    let is_key = !key.is_empty()
        && key.len() <= KEY_BYTES_MAX
        && key.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
    // Only to a page of ours.
    let next = if next.starts_with("/ui/") { next } else { "/" };
    is_key.then(|| (key.to_owned(), next.to_owned()))
}

/// The page that asks for a key.
pub fn ask(next: &str, problem: Option<&str>) -> http::Response<WebBody> {
    let mut response = respond(StatusCode::UNAUTHORIZED, &page(next, problem));
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    guard::protect(response.headers_mut());
    response
}

/// Goes on with the key in a cookie, or without it.
pub fn keep(key: Option<&str>, next: &str, is_tls: bool) -> http::Response<WebBody> {
    let mut response = redirect(next);
    let secure = if is_tls { "; Secure" } else { "" };
    let cookie = match key {
        Some(key) => format!("{COOKIE}={key}; Path=/; HttpOnly; SameSite=Strict{secure}"),
        None => format!("{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0{secure}"),
    };
    if let Ok(mut cookie) = HeaderValue::from_str(&cookie) {
        cookie.set_sensitive(true);
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    guard::protect(response.headers_mut());
    response
}

/// The key in a cookie, as the header that it stands for.
pub fn authorization(headers: &HeaderMap) -> Option<HeaderValue> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let key = pairs.into_iter().find(|(name, _)| *name == COOKIE)?.1;
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether a form may be sent from where it comes.
pub fn is_ours(head: &http::request::Parts, is_tls: bool) -> bool {
    guard::check(head, is_tls).is_ok()
}

fn page(next: &str, problem: Option<&str>) -> Markup {
    let content = html! {
        p { "This server requires authentication." }
        @if let Some(problem) = problem { div.notice.bad role="alert" { (problem) } }
        form method="post" action=(LOGIN) {
            input type="hidden" name="next" value=(next);
            label { span { "API key or token" } input type="password" name="key" required autofocus autocomplete="current-password"; }
            button.primary type="submit" { "Log in" }
        }
        p.hint { "An admin makes keys with " code { "segno key create NAME --grant NAMESPACE:ROLE" } "." }
    };
    layout::bare("Log in", &content)
}

impl Web {
    /// The page to go on with after a login.
    pub fn address(path: &str, query: Option<&str>) -> String {
        match query {
            Some(query) if path.starts_with("/ui/") => format!("{path}?{query}"),
            _ if path.starts_with("/ui/") => path.to_owned(),
            _ => "/".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::forms::encode, *};

    #[test]
    fn only_our_pages_follow_a_login() {
        let read = |key: &str, next: &str| read(format!("key={}&next={}", encode(key), encode(next)).as_bytes());
        assert_eq!(read("segno_x", "/ui/default/workflows"), Some(("segno_x".into(), "/ui/default/workflows".into())));
        for elsewhere in ["https://evil.example", "//evil.example", "/api", ""] {
            assert_eq!(read("segno_x", elsewhere).expect("a key").1, "/");
        }
        for junk in ["", "a b", "a;b", "a\nb", "ü"] {
            assert_eq!(read(junk, "/"), None, "{junk:?}");
        }
    }

    #[test]
    fn cookies_are_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("a=b; segno_key=k1; c=d"));
        assert_eq!(authorization(&headers).expect("a key"), "Bearer k1");
        headers.insert(header::COOKIE, HeaderValue::from_static("xsegno_key=k1"));
        assert_eq!(authorization(&headers), None);
    }
}
