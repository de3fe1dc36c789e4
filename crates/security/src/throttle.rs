//! Wrong keys and tokens, counted by the client address.
//!
//! After some failures an address has to wait, longer with every further one. Meanwhile wrong keys and tokens only get the
//! answer to wait, without a line in the audit log. Right ones are accepted all the same: keys are too long
//! to be guessed, and one client must not lock out others that share its address. The number of addresses is bounded.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Mutex,
    time::Duration,
};

use segno_node::HashMap;
use segno_node::lock::lock;
use tokio::time::Instant;
use tonic::{Code, Status};

/// Failures in a row without a wait.
const FREE_FAILURES: u32 = 10;
/// The first wait; every further failure doubles it.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(60);
/// After so long without a failure an address begins anew.
const FAILURE_AGE_MAX: Duration = Duration::from_secs(600);
/// Addresses that are remembered. When there are more, the one that failed least lately is forgotten.
const ADDRESSES_MAX: usize = 4096;

/// The failures of all addresses.
#[derive(Default)]
pub(super) struct Throttle {
    addresses: Mutex<HashMap<IpAddr, Failures>>,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
    /// Until when the address waits.
    until: Instant,
}

impl Throttle {
    /// The answer to a client whose key or token is wrong: why, or that it has to wait.
    pub(super) fn refusal(&self, address: Option<IpAddr>, wrong: Status) -> Status {
        let now = Instant::now();
        match self.wait_at(address, now) {
            Some(wait) => exhausted(wait),
            None => {
                self.failed_at(address, now);
                wrong
            }
        }
    }

    /// How long an address has to wait.
    fn wait_at(&self, address: Option<IpAddr>, now: Instant) -> Option<Duration> {
        let addresses = lock(&self.addresses);
        let wait = addresses.get(&network(address?))?.until.saturating_duration_since(now);
        (!wait.is_zero()).then_some(wait)
    }

    fn failed_at(&self, address: Option<IpAddr>, now: Instant) {
        let Some(address) = address.map(network) else { return };
        let mut addresses = lock(&self.addresses);
        if addresses.len() >= ADDRESSES_MAX && !addresses.contains_key(&address) {
            addresses.retain(|_, failures| now.saturating_duration_since(failures.last) < FAILURE_AGE_MAX);
            let oldest = addresses.iter().min_by_key(|(_, failures)| failures.last).map(|(address, _)| *address);
            if addresses.len() >= ADDRESSES_MAX {
                oldest.map(|oldest| addresses.remove(&oldest));
            }
        }
        let failures = addresses.entry(address).or_insert(Failures { count: 0, last: now, until: now });
        if now.saturating_duration_since(failures.last) >= FAILURE_AGE_MAX {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        if let Some(beyond) = failures.count.checked_sub(FREE_FAILURES) {
            let wait = WAIT_MIN.saturating_mul(1 << beyond.min(6));
            failures.until = now + wait.min(WAIT_MAX);
        }
    }
}

/// Whether a client was refused because it has to wait.
pub(super) fn is_throttled(status: &Status) -> bool {
    status.code() == Code::ResourceExhausted
}

fn exhausted(wait: Duration) -> Status {
    Status::resource_exhausted(format!(
        "too many wrong keys or tokens came from this address: stop trying for {} s. The right key (SDKs: api_key, segno: \
         --api-key or SEGNO_API_KEY) is accepted at once",
        wait.as_secs() + 1
    ))
}

/// The address range that counts as one client: of IPv6 a client has a whole /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> Option<IpAddr> {
        Some(IpAddr::from(number.to_be_bytes()))
    }

    #[test]
    fn an_address_waits_after_some_failures_and_longer_after_more() {
        let (throttle, mut now) = (Throttle::default(), Instant::now());
        for _ in 0..FREE_FAILURES - 1 {
            throttle.failed_at(address(1), now);
            assert_eq!(throttle.wait_at(address(1), now), None);
        }
        let mut waits = Vec::new();
        for _ in 0..8 {
            throttle.failed_at(address(1), now);
            let wait = throttle.wait_at(address(1), now).expect("it waits");
            now += wait;
            assert_eq!(throttle.wait_at(address(1), now), None, "then it may try again");
            waits.push(wait.as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(throttle.wait_at(address(2), now), None, "others do not wait");
        now += FAILURE_AGE_MAX;
        throttle.failed_at(address(1), now);
        assert_eq!(throttle.wait_at(address(1), now), None, "it begins anew");
    }

    #[test]
    fn few_addresses_are_kept_and_the_newest_are_known() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for number in 0..3 * ADDRESSES_MAX as u32 {
            throttle.failed_at(address(number), now + Duration::from_millis(u64::from(number)));
        }
        let kept = throttle.addresses.lock().expect("not poisoned");
        assert_eq!(kept.len(), ADDRESSES_MAX);
        assert!(kept.contains_key(&address(3 * ADDRESSES_MAX as u32 - 1).expect("an address")));
    }

    #[test]
    fn an_ipv6_network_is_one_address_and_a_mapped_address_is_the_ipv4_one() {
        let parse = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(parse("2001:db8:1:2::1"), parse("2001:db8:1:2:ffff::9"));
        assert_ne!(parse("2001:db8:1:2::1"), parse("2001:db8:1:3::1"));
        assert_eq!(parse("::ffff:192.0.2.1"), parse("192.0.2.1"));
    }
}
