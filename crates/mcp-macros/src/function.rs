//! Reads the parameters of a function that becomes an item of a server.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, FnArg, Receiver, ReceiverKind, Safety, Signature};

use crate::item::Item;
use crate::parameter::{ContextParameter, Kind, Member, Parameter};
use crate::rule::{Broken, Rule};

/// The result of reading a function.
#[derive(Default)]
pub(crate) struct Function {
    pub(crate) input: Input,
    pub(crate) context_parameter: Option<ContextParameter>,
    /// `true` if the function is a method with `&self`.
    pub(crate) has_self: bool,
}

/// The place of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In a module or in another function.
    Module,
    /// In an `impl` block with `#[offer]`.
    Impl,
}

/// The function that a handler calls.
pub(crate) struct Callee<'f> {
    pub(crate) attributes: &'f [Attribute],
    pub(crate) signature: &'f Signature,
    pub(crate) place: Place,
}

/// The input of an item.
#[derive(Default)]
pub(crate) enum Input {
    /// The item has no input and ignores all arguments.
    #[default]
    None,
    /// The input is a JSON object with these members.
    Members(Vec<Member>),
    /// The input is a JSON value of this type.
    Whole(Kind),
}

/// A parameter and its source tokens, for error messages.
type LocatedParameter = (Parameter, TokenStream);

impl Function {
    /// Reads the parameters of a function. Removes the attributes that the compiler does not accept on
    /// parameters.
    pub(crate) fn take(signature: &mut Signature, place: Place, item: Item) -> syn::Result<Self> {
        let mut broken = Broken::default();
        broken.note(check_signature(signature));
        let mut parameters: Vec<LocatedParameter> = Vec::new();
        for parameter in &mut signature.inputs {
            let location = parameter.to_token_stream();
            let taken = match parameter {
                FnArg::Receiver(receiver) => broken.note(check_receiver(receiver, place)).and(None),
                FnArg::Typed(typed) => broken.note(Parameter::take(item, typed)),
            };
            parameters.extend(taken.map(|taken| (taken, location)));
        }
        let has_self = signature.receiver().is_some();
        let is_async = signature.asyncness.is_some();
        let context_parameter = broken.note(take_context_parameter(&mut parameters, is_async)).flatten();
        let input = broken.note(input(parameters)).unwrap_or_default();
        broken.or_else(|| Self { input, context_parameter, has_self })
    }
}

/// Checks that a receiver is `&self`, because all calls share one value.
fn check_receiver(receiver: &Receiver, place: Place) -> syn::Result<()> {
    match (place, &receiver.kind) {
        (Place::Module, _) => Err(Rule::SelfOutsideOfOffer.at(receiver)),
        (Place::Impl, ReceiverKind::Reference(_, _, None)) => Ok(()),
        (Place::Impl, ReceiverKind::Reference(..)) => Err(Rule::MutableSelf.at(receiver)),
        (Place::Impl, _) => Err(Rule::OwnedSelf.at(receiver)),
    }
}

fn check_signature(signature: &Signature) -> syn::Result<()> {
    if let Safety::Unsafe(unsafety) = &signature.safety {
        return Err(Rule::Unsafe.at(unsafety));
    }
    if !signature.generics.params.is_empty() {
        return Err(Rule::Generic.at(&signature.generics));
    }
    Ok(())
}

/// Removes the last parameter and returns it if it is the request context (`Call` or `Context`).
fn take_context_parameter(
    parameters: &mut Vec<LocatedParameter>,
    is_async: bool,
) -> syn::Result<Option<ContextParameter>> {
    let last = parameters.pop_if(|(parameter, _)| matches!(parameter, Parameter::ContextParameter(_)));
    if let Some((_, place)) =
        parameters.iter().find(|(parameter, _)| matches!(parameter, Parameter::ContextParameter(_)))
    {
        return Err(Rule::NotLast.at(place));
    }
    match last {
        Some((Parameter::ContextParameter(ContextParameter::Call), place)) if is_async => {
            Err(Rule::AsyncWithCall.at(place))
        }
        Some((Parameter::ContextParameter(ContextParameter::Context), place)) if !is_async => {
            Err(Rule::ContextWithoutAsync.at(place))
        }
        Some((Parameter::ContextParameter(context_parameter), _)) => Ok(Some(context_parameter)),
        _ => Ok(None),
    }
}

fn input(parameters: Vec<LocatedParameter>) -> syn::Result<Input> {
    let is_alone = parameters.len() == 1;
    let mut members = Vec::new();
    for (parameter, place) in parameters {
        match parameter {
            Parameter::Member(member) => members.push(member),
            Parameter::Input(kind) if is_alone => return Ok(Input::Whole(kind)),
            Parameter::Input(_) => return Err(Rule::InputWithOthers.at(place)),
            // The request context is never an argument.
            Parameter::ContextParameter(_) => {}
        }
    }
    Ok(if members.is_empty() { Input::None } else { Input::Members(members) })
}
