//! The metadata of a protected resource (RFC 9728).

use std::fmt;

use serde_json::json;

/// A protected resource: an endpoint that requires tokens of certain authorization servers (RFC 9728).
///
/// ```
/// use thruway_mcp_server::ProtectedResource;
///
/// let resource = ProtectedResource::new("https://mcp.example/dev", ["https://login.example"])?;
/// assert_eq!(resource.metadata_path(), "/.well-known/oauth-protected-resource/dev");
/// assert!(ProtectedResource::new("/dev", ["https://login.example"]).is_err());
/// # Ok::<_, thruway_mcp_server::InvalidResource>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProtectedResource {
    url: String,
    authorization_servers: Vec<String>,
    scopes: Vec<String>,
}

/// The error for an invalid [`ProtectedResource`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InvalidResource {
    /// The URL of the resource is not an absolute HTTP URL, or has a query or a fragment.
    Url,
    /// There is no authorization server.
    NoAuthorizationServer,
}

impl ProtectedResource {
    /// Returns the resource with this URL. `url` must be the complete URL that clients use.
    ///
    /// # Errors
    /// `url` is not an absolute HTTP URL, or has a query or a fragment. Or `authorization_servers` is empty.
    pub fn new<T: Into<String>>(
        url: impl Into<String>,
        authorization_servers: impl IntoIterator<Item = T>,
    ) -> Result<Self, InvalidResource> {
        let url = url.into();
        if split(&url).is_none() {
            return Err(InvalidResource::Url);
        }
        let authorization_servers: Vec<_> = authorization_servers.into_iter().map(Into::into).collect();
        if authorization_servers.is_empty() {
            return Err(InvalidResource::NoAuthorizationServer);
        }
        Ok(Self { url, authorization_servers, scopes: Vec::new() })
    }

    /// Sets the scopes that the metadata lists. Default: none.
    #[must_use]
    pub fn with_scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Returns the URL of the resource.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the host and the port, if any, of the resource.
    pub fn authority(&self) -> &str {
        let origin = self.parts().0;
        origin.split_once("//").map_or(origin, |(_, authority)| authority)
    }

    /// Returns the path of the resource. The path is empty or begins with `/`.
    pub fn path(&self) -> &str {
        self.parts().1
    }

    /// Returns the path at which clients request the metadata. The path consists of the well-known path of
    /// RFC 9728 §3.1 and the path of the resource.
    pub fn metadata_path(&self) -> String {
        format!("/.well-known/oauth-protected-resource{}", self.path().trim_end_matches('/'))
    }

    /// Returns the URL of the metadata, for the parameter `resource_metadata` of a challenge (RFC 9728 §5.1).
    pub fn metadata_url(&self) -> String {
        format!("{}{}", self.parts().0, self.metadata_path())
    }

    /// Returns the metadata as a JSON document (RFC 9728 §2).
    pub fn metadata(&self) -> String {
        let mut metadata = json!({
            "resource": self.url,
            "authorization_servers": self.authorization_servers,
            "bearer_methods_supported": ["header"],
        });
        if !self.scopes.is_empty() {
            metadata["scopes_supported"] = json!(self.scopes);
        }
        metadata.to_string()
    }

    /// Returns the origin and the path of the resource.
    fn parts(&self) -> (&str, &str) {
        // `new` has checked the URL.
        split(&self.url).unwrap_or((&self.url, ""))
    }
}

/// Returns the origin and the path of an absolute HTTP URL. Returns `None` if the URL is not absolute, or has a
/// query or a fragment.
fn split(url: &str) -> Option<(&str, &str)> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_forbidden = |byte: char| byte.is_control() || matches!(byte, '?' | '#' | '"' | ' ' | '\\');
    (!authority.is_empty() && !rest.contains(is_forbidden)).then(|| url.split_at(url.len() - path.len()))
}

impl fmt::Display for InvalidResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url => "a resource needs an absolute HTTP URL without a query and a fragment",
            Self::NoAuthorizationServer => "a resource needs at least one authorization server",
        })
    }
}

impl std::error::Error for InvalidResource {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_url_contains_the_path_of_the_resource() {
        for (url, metadata_url) in [
            ("https://mcp.example/dev", "https://mcp.example/.well-known/oauth-protected-resource/dev"),
            (
                "https://mcp.example:8443/a/b/",
                "https://mcp.example:8443/.well-known/oauth-protected-resource/a/b",
            ),
            ("http://localhost", "http://localhost/.well-known/oauth-protected-resource"),
        ] {
            let resource = ProtectedResource::new(url, ["https://login.example"]).unwrap();
            assert_eq!(resource.metadata_url(), metadata_url);
        }
    }

    #[test]
    fn invalid_resources_are_errors() {
        let servers = ["https://login.example"];
        for url in [
            "/dev",
            "ftp://a/b",
            "https://",
            "https://a/b?c",
            "https://a/b#c",
            "https://a/\"b",
            "https://a\r\n",
        ] {
            assert_eq!(ProtectedResource::new(url, servers), Err(InvalidResource::Url), "{url}");
        }
        let none: [&str; 0] = [];
        assert_eq!(ProtectedResource::new("https://a", none), Err(InvalidResource::NoAuthorizationServer));
    }
}
