//! JSON web tokens (RFC 7519), signed by keys of a JSON web key set (RFC 7517).
//!
//! Only asymmetric algorithms are accepted, and the key determines the algorithm, never the token's header. Keys are
//! fetched at the start, periodically, and when a token names an unknown one.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use segno_proto::Nanos;
use serde_json::Value;
use tokio::time::Instant;
use tonic::Status;

use super::{Caller, Proof, fetch, roles::Grants};
use segno_node::{HashMap, lock::lock};

/// Keys are fetched again after this long.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
/// Tokens with unknown keys do not make the server fetch them more often.
const REFRESH_INTERVAL_MIN: Duration = Duration::from_secs(5);
/// How far clocks may be apart.
const LEEWAY_SECONDS: i64 = 30;
/// Longest token.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Tokens whose signature was checked; when there are more, all are forgotten.
const CHECKED_MAX: usize = 10_000;
const NANOS: i64 = 1_000_000_000;

/// Which tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenOptions {
    /// Where the keys are: a URL or a file.
    pub key_set: String,
    /// Who must have issued a token (`iss`).
    pub issuer: String,
    /// For whom it must be (`aud`).
    pub audience: String,
    /// The claim with the grants, a list such as `["default:read"]`.
    pub permissions_claim: String,
}

/// Checks tokens.
pub struct Tokens {
    options: TokenOptions,
    keys: Mutex<KeySet>,
    /// Held by the task that fetches the keys.
    fetching: tokio::sync::Mutex<()>,
    checked: Mutex<HashMap<[u8; 32], CheckedToken>>,
}

#[derive(Default)]
struct KeySet {
    keys: Arc<Vec<Key>>,
    fetched_at: Option<Instant>,
    /// When they were last fetched, with or without success.
    tried_at: Option<Instant>,
}

struct CheckedToken {
    caller: Arc<Caller>,
    not_before: i64,
    expires: i64,
    /// Its key may be withdrawn: then it is checked again.
    until: Instant,
}

/// A public key of the set.
struct Key {
    id: Option<String>,
    algorithm: &'static str,
    public: PublicKey,
}

enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    Point(Vec<u8>),
}

/// Whether a text has the form of a token.
pub fn looks_like(secret: &[u8]) -> bool {
    secret.iter().filter(|byte| **byte == b'.').count() == 2
}

impl Tokens {
    pub fn new(options: TokenOptions) -> Self {
        Self { options, keys: Mutex::default(), fetching: Default::default(), checked: Mutex::default() }
    }

    /// Who a token is about.
    pub async fn caller(&self, token: &[u8], digest: [u8; 32], now: Nanos) -> Result<Arc<Caller>, Status> {
        let seconds = now / NANOS;
        if let Some(checked) = lock(&self.checked).get(&digest)
            && Instant::now() < checked.until
        {
            check_times(checked.not_before, checked.expires, seconds)?;
            return Ok(checked.caller.clone());
        }
        let parsed = ParsedToken::of(token)?;
        let mut keys = self.keys(false).await?;
        if !keys.iter().any(|key| parsed.may_be_of(key)) {
            keys = self.keys(true).await?;
        }
        let fitting = keys.iter().filter(|key| parsed.may_be_of(key));
        if !fitting.into_iter().any(|key| key.verifies(&parsed)) {
            return Err(refused("its signature is not of a key of this server's key set"));
        }
        let checked = self.checked(&parsed.claims, seconds)?;
        let caller = checked.caller.clone();
        let mut all = lock(&self.checked);
        if all.len() >= CHECKED_MAX {
            all.clear();
        }
        all.insert(digest, checked);
        Ok(caller)
    }

    /// Reads what a token with a good signature says.
    fn checked(&self, claims: &Value, now: i64) -> Result<CheckedToken, Status> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let seconds = |name: &str| match claims.get(name) {
            None => Ok(None),
            // Times may have fractions.
            Some(value) => match value.as_f64() {
                Some(time) => Ok(Some(time as i64)),
                None => Err(refused(&format!("its claim {name} is not a number"))),
            },
        };
        if text("iss") != Some(&self.options.issuer) {
            return Err(refused("it has another issuer (iss)"));
        }
        let is_for_us = match claims.get("aud") {
            Some(Value::String(audience)) => *audience == self.options.audience,
            Some(Value::Array(all)) => all.iter().any(|audience| audience.as_str() == Some(&self.options.audience)),
            _ => false,
        };
        if !is_for_us {
            return Err(refused("it is for another audience (aud)"));
        }
        let expires = seconds("exp")?.ok_or_else(|| refused("it never expires (exp is missing)"))?;
        let not_before = seconds("nbf")?.unwrap_or(i64::MIN);
        check_times(not_before, expires, now)?;
        let permissions = claims.get(&self.options.permissions_claim).and_then(Value::as_array);
        let grants = Grants::among(permissions.into_iter().flatten().filter_map(Value::as_str));
        let name = text("sub").filter(|name| !name.is_empty()).ok_or_else(|| {
            refused("it does not say whom it is about: its issuer has to put the name of the caller into the claim sub")
        })?;
        let name = name.to_owned();
        let caller = Arc::new(Caller { name, proof: Proof::Token, grants, calls_per_second: 0, expires: 0 });
        Ok(CheckedToken { caller, not_before, expires, until: Instant::now() + REFRESH_INTERVAL })
    }

    /// The keys, fetched if they are old or `anew`.
    async fn keys(&self, anew: bool) -> Result<Arc<Vec<Key>>, Status> {
        let known = |max: Duration| {
            let keys = lock(&self.keys);
            let is_recent = keys.fetched_at.is_some_and(|at| at.elapsed() < max);
            // A set that could not be had a moment ago is not asked for again with every call.
            let was_tried = keys.tried_at.is_some_and(|at| at.elapsed() < REFRESH_INTERVAL_MIN);
            match (keys.fetched_at, is_recent || was_tried) {
                (Some(_), true) => Some(Ok(keys.keys.clone())),
                (None, true) => Some(Err(without_keys())),
                (_, false) => None,
            }
        };
        let age_max = if anew { REFRESH_INTERVAL_MIN } else { REFRESH_INTERVAL };
        if let Some(keys) = known(age_max) {
            return keys;
        }
        let _fetching = self.fetching.lock().await;
        if let Some(keys) = known(age_max) {
            return keys;
        }
        let fetched = fetch::read(&self.options.key_set).await.and_then(|text| read_keys(&text));
        let mut keys = lock(&self.keys);
        let now = Some(Instant::now());
        keys.tried_at = now;
        match fetched {
            Ok(found) => *keys = KeySet { keys: Arc::new(found), fetched_at: now, tried_at: now },
            // Those that are known stay good while the set cannot be had.
            Err(error) if keys.fetched_at.is_some() => {
                tracing::warn!(
                    "the key set {} cannot be read; the keys known so far stay in use: {error}",
                    self.options.key_set
                );
            }
            Err(error) => {
                tracing::error!("the key set {} cannot be read: {error}", self.options.key_set);
                return Err(without_keys());
            }
        }
        Ok(keys.keys.clone())
    }
}

fn without_keys() -> Status {
    Status::unavailable("tokens cannot be checked right now: the server has no keys for them")
}

fn refused(why: &str) -> Status {
    Status::unauthenticated(format!("the token is not accepted: {why}"))
}

fn check_times(not_before: i64, expires: i64, now: i64) -> Result<(), Status> {
    if expires.saturating_add(LEEWAY_SECONDS) <= now {
        return Err(refused("it has expired"));
    }
    if not_before.saturating_sub(LEEWAY_SECONDS) > now {
        return Err(refused("it is not valid yet"));
    }
    Ok(())
}

/// A token in its parts.
struct ParsedToken<'a> {
    signed: &'a [u8],
    signature: Vec<u8>,
    algorithm: String,
    key_id: Option<String>,
    claims: Value,
}

impl<'a> ParsedToken<'a> {
    fn of(token: &'a [u8]) -> Result<Self, Status> {
        let malformed = || refused("it is malformed");
        if token.len() > TOKEN_BYTES_MAX {
            return Err(malformed());
        }
        let text = std::str::from_utf8(token).map_err(|_| malformed())?;
        let (signed, signature) = text.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or_else(malformed)?;
        let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed());
        let json = |part: &str| serde_json::from_slice::<Value>(&decode(part)?).map_err(|_| malformed());
        let header = json(header)?;
        // Extensions that must be understood are not understood.
        if header.get("crit").is_some() {
            return Err(refused("it has extensions (crit)"));
        }
        let text = |name: &str| header.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            signed: signed.as_bytes(),
            signature: decode(signature)?,
            algorithm: text("alg").ok_or_else(malformed)?,
            key_id: text("kid"),
            claims: json(claims)?,
        })
    }

    fn may_be_of(&self, key: &Key) -> bool {
        self.algorithm == key.algorithm && (self.key_id.is_none() || self.key_id == key.id)
    }
}

impl Key {
    fn verifies(&self, token: &ParsedToken<'_>) -> bool {
        let rsa = |parameters: &'static RsaParameters| match &self.public {
            PublicKey::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(parameters, token.signed, &token.signature).is_ok()
            }
            PublicKey::Point(_) => false,
        };
        let curve = |algorithm: &'static dyn VerificationAlgorithm| match &self.public {
            PublicKey::Point(point) => {
                UnparsedPublicKey::new(algorithm, point).verify(token.signed, &token.signature).is_ok()
            }
            PublicKey::Rsa { .. } => false,
        };
        match self.algorithm {
            "RS256" => rsa(&RSA_PKCS1_2048_8192_SHA256),
            "RS384" => rsa(&RSA_PKCS1_2048_8192_SHA384),
            "RS512" => rsa(&RSA_PKCS1_2048_8192_SHA512),
            "ES256" => curve(&ECDSA_P256_SHA256_FIXED),
            "ES384" => curve(&ECDSA_P384_SHA384_FIXED),
            "EdDSA" => curve(&ED25519),
            _ => false,
        }
    }
}

/// Reads a key set. Keys for other purposes, or of kinds that are not understood, are left out.
fn read_keys(text: &[u8]) -> Result<Vec<Key>, String> {
    let set: Value = serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let keys = set.get("keys").and_then(Value::as_array).ok_or("it has no `keys`")?;
    Ok(keys.iter().flat_map(read_key).collect())
}

fn read_key(key: &Value) -> Vec<Key> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let bytes = |name: &str| text(name).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    if text("use").is_some_and(|purpose| purpose != "sig") {
        return Vec::new();
    }
    let point = |size: usize| {
        let (x, y) = (bytes("x")?, bytes("y")?);
        (x.len() == size && y.len() == size).then(|| [&[4][..], &x, &y].concat())
    };
    let (algorithms, public): (&[&'static str], _) = match (text("kty"), text("crv")) {
        (Some("RSA"), _) => {
            let (Some(n), Some(e)) = (bytes("n"), bytes("e")) else { return Vec::new() };
            (&["RS256", "RS384", "RS512"], Some(PublicKey::Rsa { n, e }))
        }
        (Some("EC"), Some("P-256")) => (&["ES256"], point(32).map(PublicKey::Point)),
        (Some("EC"), Some("P-384")) => (&["ES384"], point(48).map(PublicKey::Point)),
        (Some("OKP"), Some("Ed25519")) => (&["EdDSA"], bytes("x").map(PublicKey::Point)),
        _ => return Vec::new(),
    };
    let Some(public) = public else { return Vec::new() };
    let wanted = text("alg");
    let id = text("kid").map(str::to_owned);
    let allowed = algorithms.iter().filter(|algorithm| wanted.is_none_or(|wanted| wanted == **algorithm));
    allowed.map(|algorithm| Key { id: id.clone(), algorithm, public: public.clone() }).collect()
}

impl Clone for PublicKey {
    fn clone(&self) -> Self {
        match self {
            Self::Rsa { n, e } => Self::Rsa { n: n.clone(), e: e.clone() },
            Self::Point(point) => Self::Point(point.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
    };
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    struct Issuer(EcdsaKeyPair);

    impl Issuer {
        fn new() -> Self {
            let random = SystemRandom::new();
            let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
            let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
            Self(pair.expect("a key"))
        }

        fn key_set(&self, id: &str) -> String {
            let point = self.0.public_key().as_ref();
            let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..]));
            json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "x": x, "y": y }] }).to_string()
        }

        fn token(&self, header: &Value, claims: &Value) -> Vec<u8> {
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            let signed = format!("{}.{}", part(header), part(claims));
            let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
            format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)).into_bytes()
        }
    }

    fn claims() -> Value {
        json!({ "iss": "me", "aud": ["segno"], "sub": "ann", "exp": NOW + 60, "permissions": ["default:read"] })
    }

    struct Fixture {
        issuer: Issuer,
        tokens: Tokens,
        file: std::path::PathBuf,
    }

    impl Fixture {
        fn new(name: &str) -> Self {
            let issuer = Issuer::new();
            let file = std::env::temp_dir().join(format!("segno-jwks-{name}-{}", std::process::id()));
            std::fs::write(&file, issuer.key_set("k1")).expect("a file");
            let tokens = Tokens::new(TokenOptions {
                key_set: file.display().to_string(),
                issuer: "me".to_owned(),
                audience: "segno".to_owned(),
                permissions_claim: "permissions".to_owned(),
            });
            Self { issuer, tokens, file }
        }

        fn age_keys(&self, at: Option<Instant>) {
            let mut keys = self.tokens.keys.lock().expect("a lock");
            (keys.fetched_at, keys.tried_at) = (at, at);
        }

        async fn check(&self, token: &[u8], at: i64) -> Result<Arc<Caller>, Status> {
            self.tokens.caller(token, crate::digest(token), at * NANOS).await
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.file);
        }
    }

    fn header() -> Value {
        json!({ "alg": "ES256", "kid": "k1" })
    }

    #[tokio::test]
    async fn good_tokens_are_accepted_until_they_expire() {
        let fixture = Fixture::new("good");
        let token = fixture.issuer.token(&header(), &claims());
        let caller = fixture.check(&token, NOW).await.expect("accepted");
        assert_eq!((caller.name.as_str(), caller.grants.texts()), ("ann", vec!["default:read".to_owned()]));
        // From memory, and its time still counts.
        assert!(fixture.check(&token, NOW + 60).await.is_ok(), "clocks may be a little apart");
        assert!(fixture.check(&token, NOW + 60 + LEEWAY_SECONDS).await.is_err());
    }

    #[tokio::test]
    async fn forged_tokens_are_refused() {
        let fixture = Fixture::new("forged");
        let (issuer, stranger) = (&fixture.issuer, Issuer::new());
        let good = issuer.token(&header(), &claims());
        let with = |name: &str, value: Value| {
            let mut claims = claims();
            claims[name] = value;
            issuer.token(&header(), &claims)
        };
        let unsigned = |algorithm: &str| {
            let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
            format!("{}.{}.", part(&json!({ "alg": algorithm })), part(&claims())).into_bytes()
        };
        let mut tampered = good.clone();
        let middle = good.iter().position(|byte| *byte == b'.').expect("a dot") + 5;
        tampered[middle] = if tampered[middle] == b'A' { b'B' } else { b'A' };
        let mut endless = claims();
        endless.as_object_mut().expect("an object").remove("exp");
        for (what, token) in [
            ("a stranger's key", stranger.token(&header(), &claims())),
            ("tampered", tampered),
            ("none", unsigned("none")),
            ("no algorithm at all", unsigned("")),
            ("a symmetric algorithm", issuer.token(&json!({ "alg": "HS256", "kid": "k1" }), &claims())),
            ("an algorithm that is not the key's", issuer.token(&json!({ "alg": "RS256", "kid": "k1" }), &claims())),
            ("an unknown key", issuer.token(&json!({ "alg": "ES256", "kid": "k2" }), &claims())),
            ("an extension", issuer.token(&json!({ "alg": "ES256", "kid": "k1", "crit": ["x"] }), &claims())),
            ("expired", with("exp", json!(NOW - 31))),
            ("never expiring", issuer.token(&header(), &endless)),
            ("an expiry that is no number", with("exp", json!("later"))),
            ("of the future", with("nbf", json!(NOW + 31))),
            ("another issuer", with("iss", json!("you"))),
            ("another audience", with("aud", json!("other"))),
            ("no audience", with("aud", json!(null))),
            ("junk", b"a.b.c".to_vec()),
            ("too long", [&[b'a'; TOKEN_BYTES_MAX][..], b".b.c"].concat()),
        ] {
            let status = fixture.check(&token, NOW).await.expect_err(what);
            assert_eq!(status.code(), tonic::Code::Unauthenticated, "{what}");
        }
        assert!(fixture.check(&good, NOW).await.is_ok());
    }

    #[tokio::test]
    async fn keys_are_rotated() {
        let fixture = Fixture::new("rotated");
        assert!(fixture.check(&fixture.issuer.token(&header(), &claims()), NOW).await.is_ok());
        let next = Issuer::new();
        std::fs::write(&fixture.file, next.key_set("k2")).expect("written");
        let token = next.token(&json!({ "alg": "ES256", "kid": "k2" }), &claims());
        assert!(fixture.check(&token, NOW).await.is_err(), "the set was read a moment ago");
        let past = Instant::now().checked_sub(REFRESH_INTERVAL_MIN);
        fixture.age_keys(past);
        assert!(fixture.check(&token, NOW).await.is_ok());
    }
}
