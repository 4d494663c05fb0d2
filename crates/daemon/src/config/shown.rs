//! Prints configs as text for `thruway check` and `/status`.

use std::fmt;

use thruway_certificates::acme::Wanted;
use thruway_gateway::{CheckKind, ErrorPages, ServerConfig, UpstreamConfig};
use thruway_message::mask_userinfo;
use thruway_server::layers::ListenerCompression;
use thruway_server::{
    AccessLogFormat, AccessLogTarget, ClientAuthentication, ProxyFields, ProxyProtocol, SyslogAddress,
};

use super::values::Period;
use super::{
    AccessLogConfig, Action, AdminConfig, Config, FilesConfig, Http2, ListenerConfig, OtlpProtocol, Route,
    TelemetryConfig,
};

/// Describes the config, with one line for each listener, route, upstream and policy.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for listener in &self.listeners {
            writeln!(f, "listens on {listener}")?;
        }
        let proxies = &self.server.trusted_proxies;
        if !proxies.is_empty() {
            let fields = match proxies.fields() {
                ProxyFields::XForwarded => "X-Forwarded-*",
                ProxyFields::Forwarded => "Forwarded",
            };
            writeln!(f, "trusts {fields} from proxies at {}", proxies.networks())?;
        }
        for route in &self.routes {
            writeln!(f, "{route}")?;
        }
        for upstream in self.upstreams.values() {
            let servers: Vec<_> = upstream.servers.iter().map(shown_server).collect();
            let tls = if upstream.tls.is_some() { ", by TLS" } else { "" };
            let http2 = match (upstream.http2, upstream.negotiates_http2) {
                (None, _) => "",
                (Some(_), false) => ", HTTP/2",
                (Some(_), true) => ", HTTP/2 or HTTP/1.1 as each server chooses",
            };
            let more = shown_settings(upstream);
            writeln!(f, "upstream {}: {}{tls}{http2}{more}", upstream.name, servers.join(", "))?;
        }
        for (name, policy) in &self.policies {
            writeln!(f, "policy {name}: {policy}")?;
        }
        for (name, endpoint) in &self.mcp.endpoints {
            writeln!(f, "MCP endpoint {name}: {endpoint}")?;
        }
        for (name, server) in &self.mcp.servers {
            writeln!(f, "MCP server {name}: {server}")?;
        }
        if let Some(Wanted { config, certificates }) = &self.acme {
            let (directory, challenge) = (&config.directory, config.challenge);
            for names in certificates {
                let names: Vec<_> = names.iter().collect();
                let names = names.join(", ");
                writeln!(f, "orders a certificate for {names} from {directory}, by {challenge}")?;
            }
        }
        if let Some(admin) = &self.admin {
            writeln!(f, "admin listener on {admin}")?;
        }
        if let Some(telemetry) = &self.telemetry {
            writeln!(f, "telemetry: {telemetry}")?;
        }
        if let Some(store) = self.shared.as_ref().and_then(|shared| shared.store.as_ref()) {
            writeln!(f, "shared store: {} with the prefix {}", store.url, store.prefix)?;
        }
        if let Some(log) = &self.access_log {
            writeln!(f, "access log: {log}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ListenerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        if let Some(name) = &self.name {
            write!(f, " ({name})")?;
        }
        if let Some(tcp) = &self.tcp {
            f.write_str(", TCP forwarded")?;
            for (name, upstream) in &tcp.names {
                write!(f, " for {name} to {upstream},")?;
            }
            write!(f, " to {}", tcp.upstream)?;
        }
        if let Some(tls) = &self.tls {
            let config = tls.acceptor.config();
            write!(f, ", TLS with {} certificates", config.certificates.len())?;
            if let Some(internal) = tls.internal.first() {
                write!(f, ", clients must trust {}", internal.root().display())?;
            }
            if tls.ocsp_stapling {
                f.write_str(", OCSP responses fetched")?;
            }
            match config.client_authentication {
                ClientAuthentication::Off => {}
                ClientAuthentication::Optional(_) => f.write_str(", client certificates optional")?,
                ClientAuthentication::Required(_) => f.write_str(", client certificates required")?,
            }
        }
        if let Some(redirect) = &self.redirect_to_https {
            write!(f, ", redirected to https at port {}", redirect.port)?;
        }
        f.write_str(match self.http2 {
            Http2::No => "",
            Http2::Too => ", HTTP/2 too",
            Http2::Only => ", HTTP/2 only",
        })?;
        match &self.compression {
            ListenerCompression::AsElsewhere => {}
            ListenerCompression::Off => f.write_str(", nothing compressed")?,
            ListenerCompression::As(compression) => write!(f, ", compressed by {compression}")?,
        }
        if let Some(pages) = &self.error_pages {
            write!(f, ", {}", count_of(pages))?;
        }
        if let Some(rules) = &self.response_rules {
            write!(f, ", response {rules}")?;
        }
        match &self.proxy_protocol {
            None => Ok(()),
            Some(ProxyProtocol { from }) if from.is_empty() => f.write_str(", behind PROXY headers"),
            Some(ProxyProtocol { from }) => write!(f, ", behind PROXY headers from {from}"),
        }
    }
}

/// Returns the number of error pages as text.
fn count_of(pages: &ErrorPages) -> String {
    let count = pages.pages.len();
    format!("{count} error {}", if count == 1 { "page" } else { "pages" })
}

impl fmt::Display for AdminConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tls = if self.tls.is_some() { ", TLS" } else { "" };
        write!(f, "{}{tls}", self.address)?;
        match &self.authentication {
            None => Ok(()),
            Some(authentication) => write!(f, ", {} users", authentication.roles.len()),
        }
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}: ")?;
        }
        write!(f, "{}: {}", self.matching, self.action)?;
        match &self.policies[..] {
            [] => {}
            policies => write!(f, "; policies: {}", policies.join(", "))?,
        }
        if let Some(compression) = &self.compression {
            write!(f, "; compressed by {compression}")?;
        }
        if let Some(pages) = &self.error_pages {
            write!(f, "; {}", count_of(pages))?;
        }
        if let Some(bandwidth) = &self.bandwidth {
            write!(f, "; {} bytes per second", bandwidth.bytes_per_second())?;
            if bandwidth.after_bytes() > 0 {
                write!(f, " after {} bytes", bandwidth.after_bytes())?;
            }
        }
        if let Some(rules) = &self.response_rules {
            write!(f, "; response {rules}")?;
        }
        if self.is_logged { Ok(()) } else { f.write_str("; not in the access log") }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(answer) => write!(f, "answers {}", answer.status),
            Self::Connect(connect) => connect.fmt(f),
            Self::Demo => f.write_str("the demo"),
            Self::DemoMcp => f.write_str("the MCP endpoint of the demo"),
            Self::Files(files) => files.fmt(f),
            Self::Forward(action) => action.fmt(f),
            Self::Handler(_) => f.write_str("answered by a handler of the program"),
            Self::ResourceMetadata(resource) => write!(f, "the metadata of {}", resource.url()),
            Self::Mcp(name) => write!(f, "the MCP endpoint {name}"),
            Self::Redirect(redirect) => {
                write!(f, "redirects to {}", mask_userinfo(&redirect.to_string()))
            }
        }
    }
}

impl fmt::Display for FilesConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "files of {}", self.root.display())?;
        if !self.try_files.is_empty() {
            write!(f, ", tries {}", self.try_files.join(", "))?;
        }
        if self.listing {
            f.write_str(", lists directories")?;
        }
        if self.hidden_files {
            f.write_str(", serves hidden files")?;
        }
        for (place, (extension, media_type)) in self.types.iter().enumerate() {
            let start = if place == 0 { ", types" } else { "," };
            write!(f, "{start} .{extension} = {media_type}")?;
        }
        Ok(())
    }
}

/// Describes a server of an upstream: its address, and its settings that differ from the default.
fn shown_server(server: &ServerConfig) -> String {
    let settings = [
        server.is_backup.then(|| "backup".to_owned()),
        (server.weight != 1).then(|| format!("weight {}", server.weight)),
        (server.requests_max > 0).then(|| format!("at most {} requests", server.requests_max)),
    ];
    let settings: Vec<_> = settings.into_iter().flatten().collect();
    if settings.is_empty() {
        server.address.to_string()
    } else {
        format!("{} ({})", server.address, settings.join(", "))
    }
}

/// Describes the health checks, the sticky cookie and the limits of an upstream.
fn shown_settings(upstream: &UpstreamConfig) -> String {
    let checks = upstream.check.as_ref().map(|check| {
        let interval = Period(check.interval);
        match &check.kind {
            CheckKind::Http { path, .. } => format!("checked by GET {path} every {interval}"),
            CheckKind::Tcp => format!("checked by connecting every {interval}"),
        }
    });
    let limit = |count: usize, of: &str| (count > 0).then(|| format!("at most {count} {of}"));
    let is_limited = upstream.requests_max > 0
        || upstream.connections_max > 0
        || upstream.servers.iter().any(|server| server.requests_max > 0);
    let queue = upstream.queue;
    let queue =
        is_limited.then(|| format!("queue of {} requests for {}", queue.length_max, Period(queue.timeout)));
    let all = [
        checks,
        upstream.sticky.as_ref().map(|sticky| format!("sticky by the cookie {}", sticky.cookie)),
        limit(upstream.requests_max, "requests at a time"),
        limit(upstream.connections_max, "connections"),
        queue,
    ];
    all.into_iter().flatten().flat_map(|text| [", ".to_owned(), text]).collect()
}

impl fmt::Display for TelemetryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sampling, metrics_interval, service_name, collector } = self;
        if let Some(sampling) = sampling {
            write!(f, "{}% of the traces", sampling.ratio * 100.0)?;
        }
        if let Some(interval) = metrics_interval {
            let and = if sampling.is_some() { " and " } else { "" };
            write!(f, "{and}metrics every {interval:?}")?;
        }
        write!(f, " of {service_name}, by {} to {}", collector.protocol, collector.url.origin())
    }
}

impl fmt::Display for OtlpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "OTLP over HTTP",
            Self::Grpc => "OTLP over gRPC",
        })
    }
}

impl fmt::Display for AccessLogConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.lines.format {
            AccessLogFormat::Common => "common",
            AccessLogFormat::Combined => "combined",
            AccessLogFormat::Json => "json",
            AccessLogFormat::Otel => "otel",
            AccessLogFormat::Ecs => "ecs",
            AccessLogFormat::Members(_) => "json with the members of the config",
            AccessLogFormat::Template(_) => "by the template of the config",
        })?;
        match &self.target {
            AccessLogTarget::File(path) => write!(f, ", to {}", path.display())?,
            AccessLogTarget::Stdout => f.write_str(", to the standard output")?,
            AccessLogTarget::Socket(path) => write!(f, ", to the socket {}", path.display())?,
            AccessLogTarget::Syslog(syslog) => match &syslog.address {
                SyslogAddress::Unix(path) => write!(f, ", to syslog at unix:{}", path.display())?,
                SyslogAddress::Udp(name) => write!(f, ", to syslog at udp://{name}")?,
                SyslogAddress::Tcp(name) => write!(f, ", to syslog at tcp://{name}")?,
            },
        }
        match &self.lines.sample {
            Some(sample) => write!(f, ", a sample of {}", sample.ratio),
            None => Ok(()),
        }
    }
}
