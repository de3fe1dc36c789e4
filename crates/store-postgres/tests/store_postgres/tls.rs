//! TLS to the database: what is accepted and what is refused, by a PostgreSQL with certificates of its own.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use segno_store_postgres::testing::Postgres;
use segno_store_postgres::{OpenError, Options, PostgresStore};

type Root = CertifiedIssuer<'static, KeyPair>;

fn root(name: &str) -> Root {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key.
fn issue(root: &Root, name: &str, hosts: &[&str]) -> (String, String) {
    let mut params = CertificateParams::new(hosts.iter().map(|host| (*host).to_owned()).collect::<Vec<_>>()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, root).unwrap().pem(), key.serialize_pem())
}

struct World {
    postgres: Postgres,
    database: String,
    runtime: tokio::runtime::Runtime,
}

impl World {
    /// Over the network only encrypted connections with a password or a certificate are let in.
    fn new(root: &Root, hosts: &[&str]) -> Self {
        let mut postgres = Postgres::start(&[]);
        let (certificate, key) = issue(root, "server", hosts);
        let rules = "local all all trust\nhostssl all robot 127.0.0.1/32 cert\n\
                     hostssl all all 127.0.0.1/32 scram-sha-256\n";
        for (setting, file, text) in [
            ("ssl_cert_file", "server.pem", certificate.as_str()),
            ("ssl_key_file", "server.key", &key),
            ("ssl_ca_file", "clients.pem", &root.pem()),
            ("hba_file", "rules", rules),
        ] {
            let path = postgres.write(file, text);
            postgres.set(setting, &path.to_string_lossy());
        }
        postgres.set("ssl", "on");
        postgres.stop("fast");
        postgres.resume();
        postgres.psql("postgres", "ALTER ROLE postgres PASSWORD 'secret'").unwrap();
        postgres.psql("postgres", "CREATE ROLE robot SUPERUSER LOGIN").unwrap();
        let database = postgres.database();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        Self { postgres, database, runtime }
    }

    fn file(&self, name: &str, text: &str) -> String {
        self.postgres.write(name, text).to_string_lossy().replace('/', "%2F")
    }

    /// Opens the store and closes it; gives how many of its connections were encrypted.
    fn open(&self, user: &str, host: &str, parameters: &str) -> Result<String, OpenError> {
        let url = format!("postgres://{user}@{host}:{}/{}?{parameters}", self.postgres.port, self.database);
        self.runtime.block_on(async {
            let store = PostgresStore::open(&url, Options::default()).await?;
            let count = "SELECT count(*) FILTER (WHERE ssl) > 0 AND count(*) FILTER (WHERE NOT ssl) = 0 \
                         FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'segno/%'";
            let encrypted = self.postgres.psql("postgres", count).unwrap();
            store.close().await;
            Ok(encrypted)
        })
    }

    fn refused(&self, host: &str, parameters: &str) -> String {
        self.open("postgres:secret", host, parameters).expect_err(parameters).to_string()
    }
}

#[test]
fn certificates_of_the_database_are_checked_as_the_mode_says() {
    let ours = root("ours");
    let world = World::new(&ours, &["localhost"]);
    let (good, bad) = (world.file("ours.pem", &ours.pem()), world.file("theirs.pem", &root("theirs").pem()));
    let open = |host: &str, parameters: &str| world.open("postgres:secret", host, parameters);
    for (host, parameters) in [
        ("localhost", format!("sslmode=verify-full&sslrootcert={good}")),
        // A user who names a root wants it checked.
        ("localhost", format!("sslrootcert={good}")),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={good}")),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={good}")),
        ("127.0.0.1", "sslmode=require".to_owned()),
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", String::new()),
        // The password is bound to this very connection.
        ("127.0.0.1", "sslmode=require&channel_binding=require".to_owned()),
    ] {
        assert_eq!(open(host, &parameters).as_deref(), Ok("t"), "{host} {parameters}");
    }
    for (host, parameters, why) in [
        ("localhost", format!("sslmode=verify-full&sslrootcert={bad}"), "UnknownIssuer"),
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={bad}"), "UnknownIssuer"),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={bad}"), "UnknownIssuer"),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={good}"), "not valid for name"),
        ("127.0.0.1", "sslmode=disable".to_owned(), "no encryption"),
    ] {
        let refused = world.refused(host, &parameters);
        assert!(refused.contains(why), "{host} {parameters}: {refused}");
    }
    // A node that shows a certificate needs no password.
    let (certificate, key) = issue(&ours, "robot", &[]);
    let shown = format!(
        "sslmode=verify-ca&sslrootcert={good}&sslcert={}&sslkey={}",
        world.file("robot.pem", &certificate),
        world.file("robot.key", &key)
    );
    assert_eq!(world.open("robot", "127.0.0.1", &shown).as_deref(), Ok("t"));
    assert!(world.open("robot", "127.0.0.1", &format!("sslmode=verify-ca&sslrootcert={good}")).is_err());
}

/// As `openssl req -x509` makes them: the certificate is its own root.
#[test]
fn a_self_signed_certificate_can_be_its_own_root() {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let world = World::new(&own, &[]);
    world.postgres.write("server.pem", &own.pem());
    world.postgres.write("server.key", &own.key().serialize_pem());
    world.postgres.psql("postgres", "SELECT pg_reload_conf()").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pinned = world.file("own.pem", &own.pem());
    let full = format!("sslmode=verify-full&sslrootcert={pinned}");
    assert_eq!(world.open("postgres:secret", "localhost", &full).as_deref(), Ok("t"));
    assert!(world.refused("127.0.0.1", &full).contains("not valid for name"));
    let other = world.file("other.pem", &root("other").pem());
    assert!(world.open("postgres:secret", "localhost", &format!("sslmode=verify-ca&sslrootcert={other}")).is_err());
}

/// Without TLS at the server, only the modes that need it refuse.
#[test]
fn a_database_without_tls_is_refused_where_it_is_needed() {
    let postgres = Postgres::start(&[]);
    let (port, database) = (postgres.port, postgres.database());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let open = |parameters: &str| {
        runtime.block_on(async {
            let url = format!("postgres://postgres@127.0.0.1:{port}/{database}?{parameters}");
            PostgresStore::open(&url, Options::default()).await.map(drop)
        })
    };
    let refused = open("sslmode=require").unwrap_err().to_string();
    assert!(refused.contains("does not support TLS"), "{refused}");
    assert_eq!(open("sslmode=prefer"), Ok(()));
}
