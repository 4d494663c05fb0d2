//! Which upstreams have a share in the requests of a route.

use thruway_gateway::{FieldRewrite, MirrorConfig};

use super::Resolver;
use crate::config::forward::{ForwardTo, MirrorAction, SplitBy};
use crate::config::raw::{RawMirror, RawSplit};
use crate::config::spanned::Spanned;
use crate::config::{Span, Upstreams};

impl Resolver<'_> {
    pub(super) fn split(&mut self, raw: Spanned<RawSplit>, upstreams: &Upstreams) -> Option<ForwardTo> {
        let span = raw.span();
        let RawSplit { upstreams: sides, by } = raw.into_inner();
        self.check_weights(&span, sides.values().map(|weight| *weight.get_ref()));
        let sides = sides.into_iter().map(|(name, weight)| {
            let weight = self.or(Some(weight), 0, 0..=WEIGHT_MAX);
            self.known_upstream(&name, upstreams).map(|name| (name, weight))
        });
        let sides: Option<Vec<_>> = sides.collect();
        let by = by.map(|by| SplitBy { key: self.hash_by(&by), text: by.into_inner() });
        Some(ForwardTo::Split { sides: sides?, by })
    }

    fn check_weights(&mut self, span: &Span, weights: impl Iterator<Item = u32>) {
        if weights.map(u64::from).sum::<u64>() == 0 {
            self.refuse_at(span, "a split has at least one upstream with a weight");
        }
    }

    pub(super) fn mirror(&mut self, raw: RawMirror, upstreams: &Upstreams) -> Option<MirrorAction> {
        let default = MirrorConfig::default();
        let share_millionths = raw.share.map_or(default.share_millionths, |share| self.share(&share));
        let requests_max = raw.requests_max.unwrap_or(default.requests_max);
        for name in &raw.remove {
            if let Err(error) = FieldRewrite::default().withhold(name.get_ref()) {
                self.refuse_rewrite(name, error, "");
            }
        }
        let removed = raw.remove.into_iter().map(Spanned::into_inner).collect();
        let upstream = self.known_upstream(&raw.upstream, upstreams)?;
        Some(MirrorAction { upstream, config: MirrorConfig { share_millionths, requests_max }, removed })
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is from 0 to a million, and otherwise refused"
    )]
    fn share(&mut self, raw: &Spanned<f64>) -> u32 {
        if !(0.0..=1.0).contains(raw.get_ref()) {
            self.refuse_with(raw, "the value must be from 0 to 1", "a tenth of all requests is `0.1`");
        }
        (raw.get_ref() * 1_000_000.0).round() as u32
    }
}

const WEIGHT_MAX: u32 = 1_000_000;
