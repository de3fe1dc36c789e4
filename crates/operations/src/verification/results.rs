//! What came of the trials of a verification: counts for all, the first failures in full, the others by groups.

use std::collections::BTreeMap;

use segno_proto::{
    Nanos, nanos_timestamp,
    segno_verification::{Failure, FailureGroup, Outcome, RunFailure, State, TryRunResponse, Verification},
};

use super::select::Target;

/// Failures that are kept in full.
pub(super) const FAILURES_MAX: usize = 100;
/// Groups of failures that are told apart.
const GROUPS_MAX: usize = 100;
/// Bytes of a message and of a stack trace.
const TEXT_MAX: usize = 2000;
/// Bytes of a message that names a group.
const GROUP_TEXT_MAX: usize = 300;

/// A verification and what is counted for it.
pub(super) struct Results {
    verification: Verification,
    /// By type of workflow and message, numbers left out: the first message and how many.
    groups: BTreeMap<(String, String), (String, i64)>,
    /// Trials without an answer since the last one that had one.
    silent: usize,
}

fn shortened(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}...", &text[..end])
}

/// A message without its numbers: of two runs they differ where nothing else does.
fn pattern(message: &str) -> String {
    let mut pattern = String::with_capacity(message.len());
    for character in message.chars() {
        match character.is_ascii_digit() {
            true if pattern.ends_with('#') => {}
            true => pattern.push('#'),
            false => pattern.push(character),
        }
    }
    pattern
}

impl Results {
    pub(super) fn new(verification: Verification) -> Self {
        Self { verification, groups: BTreeMap::new(), silent: 0 }
    }

    /// The runs are selected.
    pub(super) fn selected(&mut self, found: i64, total: usize, skipped: i64) {
        self.verification.found = found;
        self.verification.total = total as i64;
        self.verification.skipped = skipped;
    }

    /// Whether a further failure is kept in full.
    pub(super) fn keeps_failures(&self) -> bool {
        self.verification.failures.len() < FAILURES_MAX
    }

    /// Trials without an answer since the last one that had one.
    pub(super) fn silent(&self) -> usize {
        self.silent
    }

    /// Notes what came of a trial.
    pub(super) fn note(&mut self, target: &Target, tried: TryRunResponse) {
        let (outcome, failure) = (tried.outcome(), tried.failure.unwrap_or_default());
        if outcome != Outcome::NoAnswer {
            self.silent = 0;
        }
        match outcome {
            Outcome::Replayed => self.verification.replayed += 1,
            Outcome::Failed => self.note_failure(target, failure),
            Outcome::NoAnswer | Outcome::Unspecified => {
                self.verification.unanswered += 1;
                self.silent += 1;
            }
            // It closed after it was selected.
            Outcome::Skipped => {
                self.verification.skipped += 1;
                self.verification.total -= 1;
            }
        }
    }

    fn note_failure(&mut self, target: &Target, failure: Failure) {
        self.verification.failed += 1;
        let line = shortened(failure.message.lines().next().unwrap_or_default(), GROUP_TEXT_MAX);
        let key = (target.workflow_type.clone(), pattern(&line));
        let is_full = self.groups.len() >= GROUPS_MAX;
        match self.groups.get_mut(&key) {
            Some((_, count)) => *count += 1,
            None if is_full => self.verification.others_failed += 1,
            None => {
                self.groups.insert(key, (line, 1));
            }
        }
        if self.keeps_failures() {
            let failure = Failure {
                message: shortened(&failure.message, TEXT_MAX),
                stack_trace: shortened(&failure.stack_trace, TEXT_MAX),
                r#type: shortened(&failure.r#type, GROUP_TEXT_MAX),
                ..failure
            };
            self.verification.failures.push(RunFailure {
                workflow_id: target.workflow_id.clone(),
                run_id: target.run_id.clone(),
                workflow_type: target.workflow_type.clone(),
                failure: Some(failure),
            });
        }
    }

    /// The other runs were not tried, because no worker of the candidate answers.
    pub(super) fn give_up(&mut self, left: usize) {
        self.verification.unanswered += left as i64;
    }

    /// It ends.
    pub(super) fn close(&mut self, state: State, error: String, now: Nanos) {
        self.verification.state = state as i32;
        self.verification.error = error;
        self.verification.close_time = Some(nanos_timestamp(now));
    }

    /// The verification as it is now.
    pub(super) fn shown(&self) -> Verification {
        let group = |((workflow_type, _), (message, count)): (&(String, String), &(String, i64))| FailureGroup {
            workflow_type: workflow_type.clone(),
            message: message.clone(),
            count: *count,
        };
        let mut groups: Vec<_> = self.groups.iter().map(group).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        Verification { groups, ..self.verification.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(number: usize) -> Target {
        Target { workflow_id: format!("wf-{number}"), workflow_type: "Order".to_owned(), ..Target::default() }
    }

    fn failed(message: String) -> TryRunResponse {
        let failure = Some(Failure { message, ..Default::default() });
        TryRunResponse { outcome: Outcome::Failed as i32, failure }
    }

    #[test]
    fn all_failures_are_counted_and_the_first_are_kept() {
        let mut results = Results::new(Verification::default());
        for number in 0..150 {
            results.note(&target(number), failed(format!("event {number}\nsecond line")));
        }
        for number in 0..120 {
            let letters = "x".repeat(number + 1);
            results.note(&target(number), failed(letters));
        }
        let shown = results.shown();
        assert_eq!((shown.failed, shown.failures.len(), shown.groups.len()), (270, FAILURES_MAX, GROUPS_MAX));
        assert_eq!((shown.groups[0].message.as_str(), shown.groups[0].count), ("event 0", 150));
        assert_eq!(shown.others_failed, 21);
        assert_eq!(shown.groups.iter().map(|group| group.count).sum::<i64>() + shown.others_failed, shown.failed);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let mut results = Results::new(Verification::default());
        results.note(&target(0), failed("ä".repeat(5000)));
        let shown = results.shown();
        let message = &shown.failures[0].failure.as_ref().expect("a failure").message;
        assert!(message.len() <= TEXT_MAX + 3 && message.ends_with("ä..."), "{}", message.len());
    }

    #[test]
    fn an_answer_ends_the_silence() {
        let mut results = Results::new(Verification::default());
        let silence = TryRunResponse { outcome: Outcome::NoAnswer as i32, failure: None };
        results.selected(10, 10, 0);
        results.note(&target(0), silence.clone());
        results.note(&target(1), silence);
        assert_eq!(results.silent(), 2);
        results.note(&target(2), TryRunResponse { outcome: Outcome::Skipped as i32, failure: None });
        results.give_up(7);
        let shown = results.shown();
        assert_eq!((results.silent(), shown.total, shown.unanswered, shown.skipped), (0, 9, 9, 1));
    }
}
