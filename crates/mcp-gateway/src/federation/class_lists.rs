//! The parts of merged lists that callers can see.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use thruway_mcp::federated::{ListKind, MergedList};

use super::audience::Audience;
use super::rules::{Access, RuleSet};

/// The visible lists, for each class of callers with the same permissions.
#[derive(Default)]
pub(super) struct ClassLists {
    classes: Mutex<HashMap<RuleSet, VisibleLists>>,
}

/// The lists of one class.
type VisibleLists = HashMap<(ListKind, Audience), VisibleList>;

struct VisibleList {
    /// The merged list that the visible list is a part of.
    whole: Weak<MergedList>,
    visible: Arc<MergedList>,
}

impl ClassLists {
    /// Returns the part of `whole` that callers with the permissions `access` can see.
    pub(super) fn visible(
        &self,
        kind: ListKind,
        audience: Audience,
        whole: &Arc<MergedList>,
        access: &Access<'_>,
    ) -> Arc<MergedList> {
        // The lock is held while the list is filtered, so that concurrent requests do the work only once.
        let mut classes = self.classes.lock().unwrap_or_else(PoisonError::into_inner);
        if classes.len() >= CLASSES_MAX && !classes.contains_key(access.class()) {
            classes.clear();
        }
        let lists = classes.entry(access.class().clone()).or_default();
        let current = Arc::downgrade(whole);
        if let Some(list) = lists.get(&(kind, audience)).filter(|list| list.whole.ptr_eq(&current)) {
            return list.visible.clone();
        }
        let visible = Arc::new(whole.filtered(|entry| access.allows(kind, &entry.key)));
        lists.insert((kind, audience), VisibleList { whole: current, visible: visible.clone() });
        visible
    }
}

/// Maximum number of classes with cached lists.
const CLASSES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use thruway_mcp::federated::{
        CompiledFilter, EndpointNames, ListItem, MemberItems, MemberName, NameStyle,
    };
    use thruway_mcp_server::backend::Caller;

    use super::*;
    use crate::federation::rules::{AccessRules, Rule};

    fn whole() -> Arc<MergedList> {
        let member = (MemberName::try_from("a").unwrap(), CompiledFilter::default());
        let names = EndpointNames::new(NameStyle::Plain, [member], &[]);
        let items = ["x", "y"].map(|name| {
            let json = serde_json::value::to_raw_value(&serde_json::json!({"name": name})).unwrap();
            ListItem::parse(ListKind::Tools, &json).unwrap()
        });
        let members = [MemberItems { member: 0, items: &items, is_listed: true }];
        Arc::new(MergedList::merge(&names, ListKind::Tools, &members))
    }

    /// Returns rules of which only the rule with the index `open` matches callers without a token.
    fn rules(open: usize) -> AccessRules {
        let rules = (0..=CLASSES_MAX).map(|index| Rule {
            claims: (index != open).then(|| ("group".to_owned(), vec!["a".to_owned()])).into_iter().collect(),
            tools: vec!["x".to_owned()],
            ..Rule::default()
        });
        AccessRules::compile(&rules.collect::<Vec<_>>()).unwrap().unwrap()
    }

    #[test]
    fn visible_list_is_cached_for_its_class_until_the_whole_list_changes() {
        let (lists, rules, first) = (ClassLists::default(), rules(0), whole());
        let visible =
            |whole| lists.visible(ListKind::Tools, Audience::Modern, whole, &rules.access_of(&Caller::Local));
        let keys: Vec<_> = visible(&first).entries().map(|entry| entry.key.to_string()).collect();
        assert_eq!(keys, ["x"]);
        assert!(Arc::ptr_eq(&visible(&first), &visible(&first)));
        assert!(!Arc::ptr_eq(&visible(&first), &visible(&whole())));
    }

    #[test]
    fn number_of_cached_classes_is_bounded() {
        let (lists, whole) = (ClassLists::default(), whole());
        for open in 0..=CLASSES_MAX {
            let rules = rules(open);
            lists.visible(ListKind::Tools, Audience::Modern, &whole, &rules.access_of(&Caller::Local));
            assert!(lists.classes.lock().unwrap().len() <= CLASSES_MAX);
        }
        assert_eq!(lists.classes.lock().unwrap().len(), 1);
    }
}
