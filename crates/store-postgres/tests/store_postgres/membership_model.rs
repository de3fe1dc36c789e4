//! A model of membership and fencing, searched exhaustively: two nodes, a shard, a database, messages that take their time,
//! answers that are lost, and a clock that ticks at any moment. A node that stands still is one that does nothing for a
//! while: every order of steps is searched. Things happen to the first node; the second one takes its place and gives it
//! back, and what it sends arrives at once.
//!
//! What must hold in every state that can be reached: a commit that the database accepts is made by the shard's owner; what a
//! node calls not done never happens; what a node answers from memory is not older than what was acknowledged before. Then
//! each rule is taken away, and a promise must break: a rule that can go unnoticed is either no rule or not in the model.
//!
//! A lease is two ticks; a node answers from memory for less than one after the sending of its last answered beat. A node
//! that joins again has another number and would be another node: it is not in the model.

use std::collections::HashSet;

const NODES: usize = 2;
const LEASE: u8 = 2;
const SERVED: u8 = 1;
/// Commits and changes of the map beyond this are not followed.
const VERSIONS: u8 = 1;
const MAPS: u8 = 3;
/// The node to which things happen.
const VICTIM: usize = 0;

/// What keeps the promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Fencing a node deletes its lane.
    FenceDeletesLane,
    /// A shard is claimed only if it has no living owner.
    ClaimOnlyFree,
    /// A node is fenced only if its beat is still the one that was seen.
    SeenBeat,
    /// Memory is answered from for less than two thirds of a lease.
    ServeWithinLease,
    /// The lease counts from the sending of a beat, not from its answer.
    LeaseFromSending,
    /// A shard is handed over when nothing of it is under way.
    GiveWhenQuiet,
    /// What memory has of a shard is dropped before it is handed over.
    ForgetBeforeGiving,
    /// Maps older than the last hand-over are ignored.
    NoOlderMap,
    /// An unanswered group is settled by an empty one.
    Settle,
    /// A group is accepted only under the next number of its lane.
    Numbers,
    /// A node that is fenced by command loses its lane at once, and its shards only when it has noticed or its beat stood
    /// still for a lease.
    CommandWaits,
    /// A commit is refused if the run has another version. The others make it superfluous: it is a second line.
    Versions,
}

const RULES: [Rule; 11] = [
    Rule::FenceDeletesLane,
    Rule::ClaimOnlyFree,
    Rule::SeenBeat,
    Rule::ServeWithinLease,
    Rule::LeaseFromSending,
    Rule::GiveWhenQuiet,
    Rule::ForgetBeforeGiving,
    Rule::NoOlderMap,
    Rule::Settle,
    Rule::Numbers,
    Rule::CommandWaits,
];

/// A group on its way to the database, and what the node believes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Group {
    /// The number of its lane.
    number: u8,
    /// The version that it makes.
    version: u8,
    /// Still on its way to the database.
    on_its_way: bool,
    /// What the database said; the answer is on its way back.
    answer: Option<bool>,
    /// The node does not wait: it settles.
    unanswered: bool,
    /// The node said that it did not happen.
    called_not_done: bool,
}

/// A beat under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Beat {
    /// Ticks since it was sent.
    age: u8,
    /// What the database answered: whether the node has its row and lane, the owner, the map's version, and which other
    /// beats had moved.
    answer: Option<BeatAnswer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BeatAnswer {
    is_member: bool,
    owner: Option<u8>,
    map: u8,
    moved: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Node {
    up: bool,
    /// Ticks since the sending of the last beat that was answered.
    heard: u8,
    /// Ticks since the last look at the other's beat.
    looked: u8,
    serves: bool,
    /// The version in memory.
    cache: Option<u8>,
    not_before: u8,
    last: u8,
    beat: Option<Beat>,
    group: Option<Group>,
    /// How long the other one's beat stood still.
    still: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    // The database.
    rows: [bool; NODES],
    lanes: [Option<u8>; NODES],
    owner: Option<u8>,
    map: u8,
    version: u8,
    /// The node beat since the other one last looked.
    moved: [bool; NODES],
    // What was promised.
    acknowledged: u8,
    // The nodes.
    nodes: [Node; NODES],
}

const DOWN: Node = Node {
    up: false,
    heard: 0,
    looked: 0,
    serves: false,
    cache: None,
    not_before: 0,
    last: 0,
    beat: None,
    group: None,
    still: 0,
};

impl State {
    fn first() -> Self {
        let node = Node { up: true, ..DOWN };
        Self {
            rows: [true; NODES],
            lanes: [Some(0); NODES],
            owner: None,
            map: 0,
            version: 0,
            moved: [false; NODES],
            acknowledged: 0,
            nodes: [node; NODES],
        }
    }

    fn has_living_owner(&self) -> bool {
        self.owner.is_some_and(|owner| self.rows[usize::from(owner)])
    }
}

/// What can follow, each with a name; or the promise that is broken.
struct Search {
    without: Option<Rule>,
}

/// What happens, to which node, and the state after it or the promise that it breaks.
type Next = Vec<((&'static str, usize), Result<State, &'static str>)>;

impl Search {
    fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    fn next(&self, state: &State) -> Next {
        let mut next = Vec::new();
        self.time(state, &mut next);
        for me in 0..NODES {
            if me == VICTIM {
                self.database(state, me, &mut next);
                self.misfortune(state, me, &mut next);
            }
            if state.nodes[me].up {
                self.beats(state, me, &mut next);
                self.ownership(state, me, &mut next);
                self.groups(state, me, &mut next);
                self.reads(state, me, &mut next);
            }
        }
        // What the other node sends arrives at once, and is answered at once.
        next.into_iter().map(|(what, outcome)| (what, outcome.and_then(|after| self.arrive(after)))).collect()
    }

    fn arrive(&self, state: State) -> Result<State, &'static str> {
        let node = &state.nodes[1 - VICTIM];
        let is_heard = node.beat.is_some_and(|beat| beat.answer.is_some())
            || node.group.is_some_and(|group| group.answer.is_some());
        let is_sent = node.beat.is_some() || node.group.is_some();
        let mut next = Vec::new();
        match (is_sent, is_heard) {
            (false, _) => return Ok(state),
            (true, false) => self.database(&state, 1 - VICTIM, &mut next),
            (true, true) if node.beat.is_some() => self.beats(&state, 1 - VICTIM, &mut next),
            (true, true) => self.groups(&state, 1 - VICTIM, &mut next),
        }
        match next.into_iter().next() {
            Some((_, outcome)) => self.arrive(outcome?),
            None => Ok(state),
        }
    }

    /// The clock.
    fn time(&self, state: &State, next: &mut Next) {
        let mut after = state.clone();
        for node in &mut after.nodes {
            node.heard = (node.heard + 1).min(SERVED);
            node.looked = (node.looked + 1).min(LEASE);
            if let Some(beat) = &mut node.beat {
                beat.age = (beat.age + 1).min(SERVED);
            }
        }
        next.push((("tick", 0), Ok(after)));
    }

    /// What arrives at the database.
    fn database(&self, state: &State, me: usize, next: &mut Next) {
        let node = &state.nodes[me];
        if let Some(Beat { age, answer: None }) = node.beat {
            let mut after = state.clone();
            let is_member = state.rows[me] && (!self.has(Rule::CommandWaits) || state.lanes[me].is_some());
            let answer = BeatAnswer { is_member, owner: state.owner, map: state.map, moved: state.moved[1 - me] };
            if is_member {
                after.moved[me] = true;
                after.moved[1 - me] = false;
            }
            after.nodes[me].beat = Some(Beat { age, answer: Some(answer) });
            next.push((("the beat of N arrives", me), Ok(after)));
        }
        if let Some(group) = node.group.filter(|group| group.on_its_way) {
            let mut after = state.clone();
            let fits = match state.lanes[me] {
                None => false,
                Some(last) => !self.has(Rule::Numbers) || last + 1 == group.number,
            };
            let fits = fits && (!self.has(Rule::Versions) || group.version == state.version + 1);
            let mut broken = None;
            if fits {
                after.lanes[me] = Some(group.number);
                after.version = group.version;
                if state.owner != Some(me as u8) {
                    broken = Some("a commit was accepted of who does not own the shard");
                }
                if group.called_not_done {
                    broken = Some("what was called not done happened");
                }
            }
            after.nodes[me].group = Some(Group { on_its_way: false, answer: Some(fits), ..group });
            next.push((("the group of N arrives", me), broken.map_or(Ok(after), Err)));
        }
    }

    fn beats(&self, state: &State, me: usize, next: &mut Next) {
        let node = &state.nodes[me];
        match node.beat {
            None => {
                let mut after = state.clone();
                after.nodes[me].beat = Some(Beat { age: 0, answer: None });
                next.push((("N beats", me), Ok(after)));
            }
            Some(Beat { answer: Some(answer), .. }) if !answer.is_member => {
                // It lost its place: nothing is left in memory, and its row goes if it is still there.
                let mut after = state.clone();
                after.nodes[me] = DOWN;
                if after.rows[me] {
                    after.rows[me] = false;
                    after.map += 1;
                }
                after.lanes[me] = None;
                next.push((("N learns that it lost its place", me), Ok(after)));
            }
            Some(Beat { age, answer: Some(answer) }) => {
                let mut after = state.clone();
                let this = &mut after.nodes[me];
                this.heard = if self.has(Rule::LeaseFromSending) { age } else { 0 };
                // Time without a beat of its own says nothing about the other.
                let passed = this.looked.saturating_sub(age).min(1);
                this.looked = age;
                this.still = if answer.moved { 0 } else { (this.still + passed).min(LEASE) };
                this.beat = None;
                if answer.map >= this.not_before || !self.has(Rule::NoOlderMap) {
                    let mine = answer.owner == Some(me as u8);
                    if mine && !this.serves {
                        this.serves = true;
                        this.cache = None;
                    } else if !mine && this.serves {
                        this.serves = false;
                        this.cache = None;
                    }
                }
                next.push((("N hears its beat", me), Ok(after)));
            }
            _ => {}
        }
        let other = 1 - me;
        if node.still >= LEASE && node.beat.is_none() && state.rows[other] {
            let came_back = state.moved[other];
            let mut after = state.clone();
            if !came_back || !self.has(Rule::SeenBeat) {
                self.fence(&mut after, other);
            }
            after.nodes[me].still = 0;
            next.push((("N declares the other gone", me), Ok(after)));
        }
    }

    fn fence(&self, state: &mut State, gone: usize) {
        state.rows[gone] = false;
        if self.has(Rule::FenceDeletesLane) {
            state.lanes[gone] = None;
        }
        state.map += 1;
    }

    fn ownership(&self, state: &State, me: usize, next: &mut Next) {
        let node = &state.nodes[me];
        // The node that has its row; the database looks at it in the same statement.
        let free = !state.has_living_owner() || !self.has(Rule::ClaimOnlyFree);
        if free && state.rows[me] && state.owner != Some(me as u8) {
            let mut after = state.clone();
            after.owner = Some(me as u8);
            after.map += 1;
            next.push((("N claims the shard", me), Ok(after)));
        }
        let quiet = node.group.is_none() || !self.has(Rule::GiveWhenQuiet);
        if node.serves && quiet && state.owner == Some(me as u8) && state.rows[me] && state.rows[1 - me] {
            let mut after = state.clone();
            after.owner = Some(1 - me as u8);
            after.map += 1;
            let map = after.map;
            let this = &mut after.nodes[me];
            this.not_before = map;
            if self.has(Rule::ForgetBeforeGiving) {
                this.serves = false;
                this.cache = None;
            }
            next.push((("N hands the shard over", me), Ok(after)));
        }
    }

    fn may_serve(&self, node: &Node) -> bool {
        node.serves && (node.heard < SERVED || !self.has(Rule::ServeWithinLease))
    }

    fn groups(&self, state: &State, me: usize, next: &mut Next) {
        let node = &state.nodes[me];
        match node.group {
            None if self.may_serve(node) => match node.cache {
                None => {
                    let mut after = state.clone();
                    after.nodes[me].cache = Some(state.version);
                    next.push((("N loads the run", me), Ok(after)));
                }
                Some(version) => {
                    let mut after = state.clone();
                    let (number, version) = (node.last + 1, version + 1);
                    after.nodes[me].group = Some(Group {
                        number,
                        version,
                        on_its_way: true,
                        answer: None,
                        unanswered: false,
                        called_not_done: false,
                    });
                    next.push((("N commits", me), Ok(after)));
                }
            },
            Some(Group { answer: Some(done), unanswered: false, number, version, .. }) => {
                let mut after = state.clone();
                let this = &mut after.nodes[me];
                this.group = None;
                if done {
                    this.last = number;
                    this.cache = this.serves.then_some(version);
                    after.acknowledged = after.acknowledged.max(version);
                }
                next.push((("N hears of its group", me), Ok(after)));
            }
            Some(group @ Group { unanswered: true, called_not_done: false, .. }) => self.settle(state, me, group, next),
            _ => {}
        }
    }

    /// An empty group under the same number says what became of the one without an answer.
    fn settle(&self, state: &State, me: usize, group: Group, next: &mut Next) {
        let mut after = state.clone();
        let this = &mut after.nodes[me];
        let mut broken = None;
        let not_done = Group { called_not_done: true, unanswered: true, ..group };
        let keep = group.on_its_way.then_some(not_done);
        match state.lanes[me] {
            _ if !self.has(Rule::Settle) => {
                if group.answer == Some(true) {
                    broken = Some("what was called not done happened");
                }
                this.group = keep;
            }
            None => this.group = keep,
            Some(last) if last + 1 == group.number => {
                // It is void now. A group that is still on its way finds the number used.
                after.lanes[me] = Some(group.number);
                this.last = group.number;
                this.group = keep;
            }
            Some(_) => {
                this.last = group.number;
                this.group = None;
                this.cache = this.serves.then_some(group.version);
                after.acknowledged = after.acknowledged.max(group.version);
            }
        }
        next.push((("N settles", me), broken.map_or(Ok(after), Err)));
    }

    /// An answer from memory.
    fn reads(&self, state: &State, me: usize, next: &mut Next) {
        let node = &state.nodes[me];
        if self.may_serve(node)
            && let Some(seen) = node.cache
            && seen < state.acknowledged
            && node.group.is_none_or(|group| group.called_not_done)
        {
            next.push((("N answers a read", me), Err("an answer from memory was outdated")));
        }
    }

    fn misfortune(&self, state: &State, me: usize, next: &mut Next) {
        let node = &state.nodes[me];
        if let Some(group) = node.group.filter(|group| !group.unanswered) {
            let mut after = state.clone();
            after.nodes[me].group = Some(Group { unanswered: true, ..group });
            next.push((("the answer to N is lost", me), Ok(after)));
        }
        if state.rows[me] && state.lanes[me].is_some() {
            let mut after = state.clone();
            if self.has(Rule::CommandWaits) {
                after.lanes[me] = None;
            } else {
                self.fence(&mut after, me);
            }
            next.push((("N is fenced by command", me), Ok(after)));
        }
    }

    /// Searches everything; the shortest way to a broken promise, or the number of states.
    fn run(&self) -> Result<usize, Vec<String>> {
        let mut states = vec![State::first()];
        let mut from = vec![(0, ("", 0))];
        let mut known: HashSet<State> = HashSet::from([State::first()]);
        let mut at = 0;
        while at < states.len() {
            for (what, outcome) in self.next(&states[at].clone()) {
                match outcome {
                    Err(broken) => {
                        let mut way = vec![broken.to_owned(), what.0.replace('N', &what.1.to_string())];
                        while at > 0 {
                            let (before, (name, node)) = from[at];
                            way.push(name.replace('N', &node.to_string()));
                            at = before;
                        }
                        way.reverse();
                        return Err(way);
                    }
                    Ok(after) => {
                        let bounded = after.version <= VERSIONS
                            && after.map <= MAPS
                            && after.nodes.iter().all(|node| node.group.is_none_or(|group| group.version <= VERSIONS));
                        if bounded && known.insert(after.clone()) {
                            states.push(after);
                            from.push((at, what));
                        }
                    }
                }
            }
            at += 1;
        }
        Ok(states.len())
    }
}

#[test]
fn every_promise_holds_in_every_state() {
    let states = Search { without: None }.run().unwrap_or_else(|way| panic!("{way:#?}"));
    println!("{states} states");
    assert!(states > 10_000, "the search is shallow: {states} states");
}

#[test]
fn without_a_rule_a_promise_breaks() {
    for rule in RULES {
        let way = Search { without: Some(rule) }.run();
        let way = way.expect_err(&format!("{rule:?} can go and nothing breaks"));
        println!("without {rule:?}: {}", way.join("; "));
    }
}

/// Not a rule that the promises need: if it ever refuses something, another rule was broken.
#[test]
fn versions_are_a_second_line() {
    assert!(Search { without: Some(Rule::Versions) }.run().is_ok());
}
