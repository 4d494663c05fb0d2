//! The extractor of route parameters.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, Visitor};
use thruway_message::StatusCode;
use thruway_net::{Admitted, LogLimit};

use super::text_value::{TextValue, TextValueError};
use super::{Extraction, FromRequestParts};
use crate::request::{Parameters, Rejection, Request};

/// The decoded parameters of the route, converted to `T`.
///
/// | `T` | parameters |
/// |---|---|
/// | a number, a `bool`, a `char`, a `String`, an enum | the only parameter |
/// | a tuple or a `Vec` | all parameters in the order of the route |
/// | a struct or a map | all parameters by name |
///
/// A parameter that cannot be converted gets 400. If the route does not have the parameters that `T` needs,
/// the response is 500, and the server logs the reason.
///
/// ```
/// use thruway_server::extractors::Path;
/// use thruway_server::Router;
///
/// let router = Router::new()
///     .get("/users/{id}", |Path(id): Path<u64>| format!("user {id}\n"))
///     .get("/sum/{a}/{b}", |Path((a, b)): Path<(i64, i64)>| format!("{}\n", a.saturating_add(b)));
/// # let _ = router;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Path<T>(pub T);

impl<S, T: DeserializeOwned> FromRequestParts<S> for Path<T> {
    type Rejection = Rejection;

    fn from_request_parts(request: &mut Request<'_>, _: &S) -> Extraction<Self, Rejection> {
        let value = decoded(request.parameters())
            .and_then(|parameters| T::deserialize(PathParameters(parameters)))
            .map(Self);
        value.map_err(rejection).into()
    }
}

fn rejection(error: PathError) -> Rejection {
    match error {
        PathError::Value(message) => Rejection::new(StatusCode::BAD_REQUEST, message),
        PathError::Route(reason) => {
            static LIMIT: LogLimit = LogLimit::new();
            if let Some(Admitted { suppressed }) = LIMIT.admit() {
                tracing::error!(reason, suppressed, "the route does not fit the type of its parameters");
            }
            Rejection::new(StatusCode::INTERNAL_SERVER_ERROR, "")
        }
    }
}

/// Returns the names and the decoded values of the parameters.
fn decoded<'a>(parameters: &'a Parameters<'_>) -> Result<Vec<PathParameter<'a>>, PathError> {
    let decode = |(name, value): (&'a str, &'a str)| {
        let text = percent_encoding::percent_decode_str(value).decode_utf8();
        let text = text.map_err(|_| PathError::of(name, "expected UTF-8"))?;
        Ok(PathParameter::new(name, text))
    };
    parameters.iter().map(decode).collect()
}

/// Reason why parameters cannot be converted.
#[derive(Debug)]
enum PathError {
    /// The client has sent an invalid value.
    Value(String),
    /// The route does not have the parameters that the type needs.
    Route(String),
}

impl TextValueError for PathError {
    const HAS_JSON: bool = false;

    fn of(name: &str, reason: impl fmt::Display) -> Self {
        Self::Value(format!("invalid path parameter `{name}`: {reason}"))
    }
}

impl de::Error for PathError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Value(format!("invalid path: {message}"))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Route(format!("the route has no parameter `{field}`"))
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Value(message) | Self::Route(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for PathError {}

/// All parameters of a route.
struct PathParameters<'a>(Vec<PathParameter<'a>>);

/// One parameter of a route.
type PathParameter<'a> = TextValue<'a, PathError>;

impl<'a> PathParameters<'a> {
    fn only(self) -> Result<PathParameter<'a>, PathError> {
        let count = self.0.len();
        let mut parameters = self.0.into_iter();
        match (parameters.next(), parameters.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(PathError::Route(format!("the type needs 1 parameter, but the route has {count}"))),
        }
    }

    /// Checks that the route has `needed` parameters.
    fn check_count(&self, needed: usize) -> Result<(), PathError> {
        let count = self.0.len();
        if count == needed {
            return Ok(());
        }
        Err(PathError::Route(format!("the type needs {needed} parameters, but the route has {count}")))
    }
}

/// Deserializes the only parameter.
macro_rules! only {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
            self.only()?.$method(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for PathParameters<'de> {
    type Error = PathError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        self.deserialize_map(visitor)
    }

    only! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32
        deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_identifier
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        if self.0.is_empty() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, PathError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, PathError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        visitor.visit_seq(SeqDeserializer::new(self.0.into_iter()))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, PathError> {
        self.check_count(count)?;
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, PathError> {
        self.deserialize_tuple(count, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        let members = self.0.into_iter().map(|parameter| (parameter.name(), parameter));
        visitor.visit_map(MapDeserializer::new(members))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PathError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, PathError> {
        self.only()?.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, PathError> {
        visitor.visit_unit()
    }
}
