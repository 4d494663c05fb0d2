//! From what the file says to what is to be done.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use thruway_server::{
    AccessLogFormat, AccessLogTarget, FieldLinesBuf, FieldValue, InvalidListenAddr, Limits, ListenAddr,
    StatusCode, Timeouts,
};
use toml::Spanned;

use super::failure::Source;
use super::raw::{
    Period, Raw, RawAccessLog, RawAnswer, RawField, RawFiles, RawFormat, RawLimits, RawListener, RawRoute,
    RawTimeouts,
};
use super::{AccessLogConfig, Action, Config, Failure, FilesConfig, FixedAnswer, PathMatch, Route};

/// Resolves `raw`, which `source` says.
pub(super) fn resolve(raw: Raw, source: Source) -> Result<Config, Failure> {
    let resolver = Resolver { source: &source };
    if raw.listeners.is_empty() {
        return Err(Failure::new(format!("`{}` has no listener", source.path.display()))
            .with_hint("add one: `[[listeners]]` and below it `address = \"127.0.0.1:8080\"`"));
    }
    let listeners =
        raw.listeners.iter().map(|listener| resolver.listener(listener)).collect::<Result<_, _>>()?;
    let routes = raw.routes.into_iter().map(|route| resolver.route(route)).collect::<Result<_, _>>()?;
    let workers = raw.workers.map(|workers| resolver.in_range(workers, 1..=1024)).transpose()?;
    let connections_max =
        raw.connections_max.map(|count| resolver.in_range(count, 1..=usize::MAX)).transpose()?;
    let access_log = raw.access_log.map(|log| resolver.access_log(log));
    let server = resolver.server(raw.limits, &raw.timeouts)?;
    Ok(Config { listeners, routes, access_log, workers, connections_max, server, source: Some(source) })
}

/// Resolves the parts of one file.
struct Resolver<'s> {
    source: &'s Source,
}

impl Resolver<'_> {
    fn listener(&self, raw: &RawListener) -> Result<ListenAddr, Failure> {
        raw.address.get_ref().parse().map_err(|error: InvalidListenAddr| {
            self.failure(&raw.address, error).with_hint(InvalidListenAddr::HINT)
        })
    }

    fn route(&self, raw: Spanned<RawRoute>) -> Result<Route, Failure> {
        let span = raw.span();
        let failure = |message: &str| self.source.failure(span.clone(), message);
        let route = raw.into_inner();
        let path = match (route.path, route.path_exact) {
            (Some(path), None) => PathMatch::Prefix(self.path(path)?),
            (None, Some(path)) => PathMatch::Exact(self.path(path)?),
            (None, None) => return Err(failure("a route needs a `path` or a `path_exact`")),
            (Some(_), Some(_)) => return Err(failure("a route has either a `path` or a `path_exact`")),
        };
        let action = match (route.answer, route.demo.unwrap_or_default(), route.files) {
            (Some(answer), false, None) => Action::Answer(self.answer(answer)?),
            (None, true, None) => Action::Demo,
            (None, false, Some(files)) => Action::Files(self.files(files)?),
            (None, false, None) => {
                return Err(
                    failure("a route needs an action").with_hint("actions are `answer`, `demo` and `files`")
                );
            }
            _ => return Err(failure("a route has only one action")),
        };
        Ok(Route { path, action, span })
    }

    /// Paths begin with a slash, and are matched as they are written: braces would make parameters of them.
    fn path(&self, raw: Spanned<String>) -> Result<String, Failure> {
        if !raw.get_ref().starts_with('/') {
            return Err(self.failure(&raw, "a path must begin with `/`"));
        }
        if raw.get_ref().contains(['{', '}', '?', '#']) {
            return Err(self.failure(&raw, "a path must not hold `{`, `}`, `?` or `#`"));
        }
        Ok(raw.into_inner())
    }

    fn answer(&self, raw: RawAnswer) -> Result<FixedAnswer, Failure> {
        let status = match raw.status {
            None => StatusCode::OK,
            Some(status) => match StatusCode::new(*status.get_ref()) {
                Ok(code) if !code.is_interim() => code,
                _ => return Err(self.failure(&status, "a status of an answer is 200 to 999")),
            },
        };
        let mut field_lines = FieldLinesBuf::new();
        match raw.content_type {
            None if raw.content.is_empty() => {}
            None => field_lines = TEXT,
            Some(value) => field_lines
                .append("Content-Type", value.get_ref())
                .map_err(|error| self.failure(&value, error))?,
        }
        for field in raw.fields {
            let RawField { name, value } = field.get_ref();
            field_lines.append(name, value).map_err(|error| self.failure(&field, error))?;
        }
        Ok(FixedAnswer { status, field_lines, content: raw.content })
    }

    fn files(&self, raw: RawFiles) -> Result<FilesConfig, Failure> {
        if let Some(value) = &raw.cache_control {
            FieldValue::new(value.get_ref().as_bytes()).map_err(|error| self.failure(value, error))?;
        }
        Ok(FilesConfig {
            root: self.beside_config(&raw.root),
            index: raw.index,
            precompressed: raw.precompressed.unwrap_or(true),
            hidden_files: raw.hidden_files,
            cache_control: raw.cache_control.map(Spanned::into_inner),
        })
    }

    fn access_log(&self, raw: RawAccessLog) -> AccessLogConfig {
        let format = match raw.format {
            RawFormat::Common => AccessLogFormat::Common,
            RawFormat::Combined => AccessLogFormat::Combined,
            RawFormat::Json => AccessLogFormat::Json,
        };
        let target = match raw.path {
            Some(path) if path != Path::new("-") => AccessLogTarget::File(self.beside_config(&path)),
            _ => AccessLogTarget::Stdout,
        };
        AccessLogConfig { format, target }
    }

    fn server(&self, limits: RawLimits, timeouts: &RawTimeouts) -> Result<thruway_server::Config, Failure> {
        let default = thruway_server::Config::default();
        let small = 1 << 10;
        Ok(thruway_server::Config {
            pipelined_requests: limits.pipelined_requests.unwrap_or(default.pipelined_requests).max(1),
            output_bytes: self.or(limits.output_bytes, default.output_bytes, small..=1 << 30)?,
            content_window_bytes: self.or(
                limits.content_window_bytes,
                default.content_window_bytes,
                small..=1 << 30,
            )?,
            discard_bytes: limits.discard_bytes.unwrap_or(default.discard_bytes),
            limits: Limits {
                request_target_bytes: self.or(
                    limits.request_target_bytes,
                    default.limits.request_target_bytes,
                    16..=HEAD_BYTES_MAX,
                )?,
                header_section_bytes: self.or(
                    limits.header_section_bytes,
                    default.limits.header_section_bytes,
                    64..=HEAD_BYTES_MAX,
                )?,
                field_lines: self.or(limits.field_lines, default.limits.field_lines, 1..=10_000)?,
                content_bytes: limits.content_bytes.unwrap_or(default.limits.content_bytes),
                chunk_extension_bytes: self.or(
                    limits.chunk_extension_bytes,
                    default.limits.chunk_extension_bytes,
                    0..=HEAD_BYTES_MAX,
                )?,
                trailer_section_bytes: self.or(
                    limits.trailer_section_bytes,
                    default.limits.trailer_section_bytes,
                    2..=HEAD_BYTES_MAX,
                )?,
                requests_per_connection: limits.requests_per_connection.unwrap_or(0),
                ..default.limits
            },
            timeouts: self::timeouts(timeouts, default.timeouts),
        })
    }

    fn or<T>(&self, raw: Option<Spanned<T>>, default: T, range: RangeInclusive<T>) -> Result<T, Failure>
    where
        T: PartialOrd + fmt::Display,
    {
        raw.map_or(Ok(default), |value| self.in_range(value, range))
    }

    fn in_range<T: PartialOrd + fmt::Display>(
        &self,
        value: Spanned<T>,
        range: RangeInclusive<T>,
    ) -> Result<T, Failure> {
        if range.contains(value.get_ref()) {
            return Ok(value.into_inner());
        }
        let (least, most) = range.into_inner();
        Err(self.failure(&value, format!("the value must be from {least} to {most}")))
    }

    fn failure<T>(&self, at: &Spanned<T>, message: impl fmt::Display) -> Failure {
        self.source.failure(at.span(), message)
    }

    /// Relative paths start where the config is, wherever the command was called.
    fn beside_config(&self, path: &Path) -> PathBuf {
        self.source.path.parent().map_or_else(|| path.to_owned(), |directory| directory.join(path))
    }
}

fn timeouts(raw: &RawTimeouts, default: Timeouts) -> Timeouts {
    let or = |period: Option<Period>, default| period.map_or(default, |Period(duration)| duration);
    Timeouts {
        header_section: or(raw.header_section, default.header_section),
        content: or(raw.content, default.content),
        content_rate_min: raw.content_rate_min.unwrap_or(default.content_rate_min),
        idle: or(raw.idle, default.idle),
        write_stall: or(raw.write_stall, default.write_stall),
        linger: or(raw.linger, default.linger),
        drain: or(raw.drain, default.drain),
    }
}

const TEXT: FieldLinesBuf = FieldLinesBuf::from_static("Content-Type: text/plain; charset=utf-8\r\n");

/// 1 MiB: see `Limits::header_section_bytes` for why not more.
const HEAD_BYTES_MAX: u32 = 1 << 20;
