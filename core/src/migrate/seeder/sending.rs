//! Rounds: which blocks go next, and what is known to have arrived.

use super::super::message::*;
use super::super::phase::{Cause, Phase};
use super::super::rounds::Next;
use super::super::{Now, parts};
use super::{Action, ROUND_BLOCKS, ROUND_WHILE_ASKING, Round, Seeder};
use crate::planted::{self, Bug};
use crate::units::{BLOCK_BYTES, BlockRange, coalesce};
use bytes::Bytes;

impl Seeder {
    pub(super) fn watching(
        &mut self,
        now: Now,
        attempt: u32,
        delta: Vec<BlockRange>,
        head: Bytes,
    ) -> Vec<Action> {
        if attempt != self.record.attempt || self.record.phase != Phase::Copying {
            return Vec::new();
        }
        (self.is_watching, self.head, self.last_second) = (true, head, now.at);
        self.waiting.extend(delta);
        self.waiting = coalesce(std::mem::take(&mut self.waiting), 1);
        self.pump(now)
    }

    pub(super) fn wrote(&mut self, now: Now, runs: Vec<BlockRange>) {
        if !self.is_watching {
            return;
        }
        self.volatility.wrote(now.at, &runs);
        self.second_bytes += runs.iter().map(BlockRange::byte_len).sum::<u64>();
        self.waiting.extend(runs);
        self.waiting = coalesce(std::mem::take(&mut self.waiting), 1);
    }

    pub(super) fn waiting_blocks(&self) -> u64 {
        self.waiting.iter().map(BlockRange::count).sum()
    }

    pub(super) fn left(&self) -> u64 {
        let in_round = self.round.iter().flat_map(|round| round.parts.iter().flatten());
        self.waiting_blocks() + in_round.map(BlockRange::count).sum::<u64>()
    }

    /// Begins the next round if it is time, and sends what the window allows.
    pub(super) fn pump(&mut self, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.record.phase == Phase::Copying && self.is_watching && self.round.is_none() {
            actions.extend(self.decide(now));
        }
        actions.extend(self.send_parts());
        if !actions.is_empty() {
            self.last_sent = now.at;
        }
        actions
    }

    pub(super) fn decide(&mut self, now: Now) -> Vec<Action> {
        let (mut order, hot) = self.volatility.order(now.at, &self.waiting);
        let count = |runs: &[BlockRange]| runs.iter().map(BlockRange::count).sum::<u64>();
        let (cold, held) = (count(&order), count(&hot));
        let next = match self.rounds_done {
            // The first round says how fast the link is. A full round need not be judged either.
            0 if cold > 0 => Next::Round,
            _ if cold >= ROUND_BLOCKS => Next::Round,
            _ => self.rounds.next(now.at, cold + held, held),
        };
        self.asking = None;
        let rounds = match next {
            Next::Round => true,
            Next::Ask(stop) => {
                self.asking = Some(stop);
                now.at >= self.last_round + ROUND_WHILE_ASKING
            }
            Next::Stop | Next::Wait => false,
        };
        if rounds {
            // Without anything else, hot blocks at least say how fast the link is now.
            let mut rest = if cold == 0 { std::mem::replace(&mut order, hot) } else { hot };
            rest.extend(split_off(&mut order, ROUND_BLOCKS));
            self.begin_round(now, &order, coalesce(rest, 1));
            return Vec::new();
        }
        match next == Next::Stop && self.is_greeted {
            true => self.stop_or_prepare(),
            false => Vec::new(),
        }
    }

    /// The leecher has to be ready for what there is before programs are stopped.
    pub(super) fn stop_or_prepare(&mut self) -> Vec<Action> {
        let delta_blocks = self.delta_blocks();
        if self.prepared_blocks.is_some_and(|blocks| blocks >= delta_blocks) && self.go(Cause::Converged) {
            return vec![Action::Stop];
        }
        if self.asked_blocks >= delta_blocks {
            return Vec::new();
        }
        self.asked_blocks = delta_blocks;
        let (attempt, head) = (self.record.attempt, self.head.clone());
        vec![Action::Send(Message::Prepare(Prepare { attempt, delta_blocks, head }))]
    }

    pub(super) fn begin_round(&mut self, now: Now, order: &[BlockRange], rest: Vec<BlockRange>) {
        let parts = parts(order);
        let blocks = order.iter().map(BlockRange::count).sum();
        self.waiting = rest;
        self.rounds.began(now.at);
        self.last_round = now.at;
        self.round = Some(Round {
            number: self.rounds_done + 1,
            parts,
            sent: 0,
            blocks,
            began: now.at,
            is_repeated: false,
        });
    }

    /// Blocks of the delta, with as much again as is left, since that may grow until programs are stopped.
    pub(super) fn delta_blocks(&self) -> u64 {
        let most = self.record.offer.size_blocks;
        (self.sent_blocks + self.left() * 2).clamp(1, most.max(1))
    }

    pub(super) fn send_parts(&mut self) -> Vec<Action> {
        let attempt = self.record.attempt;
        let can_send = matches!(self.record.phase, Phase::Copying | Phase::Sealed);
        if !can_send || !self.is_greeted {
            return Vec::new();
        }
        let Some(round) = &mut self.round else { return Vec::new() };
        let mut actions = Vec::new();
        for blocks in round.parts.iter().skip(round.sent) {
            let at = Position { attempt, round: round.number, part: round.sent as u32 };
            round.sent += 1;
            actions.push(Action::SendPart {
                at,
                last: round.sent == round.parts.len(),
                blocks: blocks.clone(),
            });
        }
        if planted::has(Bug::RoundClearedBeforeAck) && self.record.phase == Phase::Copying {
            self.round_done(None);
        }
        actions
    }

    pub(super) fn acked(&mut self, now: Now, position: Position) -> Vec<Action> {
        if position.attempt != self.record.attempt {
            return Vec::new();
        }
        // The last round stays until FINAL is acknowledged, which says more.
        let is_done = self.round.as_ref().is_some_and(|round| position.round > round.number);
        if is_done && self.record.phase == Phase::Copying {
            self.last_progress = now.at;
            self.round_done(Some(now));
        }
        self.pump(now)
    }

    pub(super) fn round_done(&mut self, now: Option<Now>) {
        let Some(round) = self.round.take() else { return };
        self.rounds_done = round.number;
        self.sent_blocks += round.blocks;
        if let Some(now) = now {
            let took = now.at.saturating_sub(round.began);
            if !round.is_repeated {
                self.rounds.acknowledged(round.blocks * BLOCK_BYTES, took);
            }
            self.rounds.ended(self.waiting_blocks());
        }
    }
}

/// Takes from `order` what goes beyond `most` blocks.
fn split_off(order: &mut Vec<BlockRange>, most: u64) -> Vec<BlockRange> {
    let mut blocks = 0;
    let mut rest = Vec::new();
    order.retain_mut(|run| {
        let taken = run.count().min(most - blocks);
        blocks += taken;
        rest.push(BlockRange { start: run.start + taken, end: run.end });
        run.end = run.start + taken;
        !run.is_empty()
    });
    rest.retain(|run| !run.is_empty());
    rest
}
