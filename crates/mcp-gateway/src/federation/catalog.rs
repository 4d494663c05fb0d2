//! The merged lists of a federation.

/// Options of a [`Catalog`].
pub(super) struct CatalogOptions {
    /// Maximum time that a request for a list waits for the lists of the members.
    pub(super) list_wait: Duration,
    /// Maximum time that a list may be cached, by clients and by the catalog.
    pub(super) list_ttl_max: Duration,
    /// Maximum number of items in a page.
    pub(super) page_entries: usize,
    /// Name and version of the gateway as a client of its members.
    pub(super) client_info: Implementation,
}

/// Provides the connection on which the catalog fetches the lists of a member.
pub(super) trait ListSource: fmt::Debug + Send + Sync + 'static {
    /// Returns the connection to the member. Waits while the first attempt to connect is running.
    fn connection(&self) -> ConnectionFuture;
}

/// The future of [`ListSource::connection`].
pub(super) type ConnectionFuture =
    Pin<Box<dyn Future<Output = Result<ListConnection, McpClientError>> + Send>>;

/// A connection to a member.
pub(super) struct ListConnection {
    pub(super) client: McpClient,
    /// The capabilities of the member. The catalog requests only lists that the member has.
    pub(super) capabilities: ServerCapabilities,
    /// `true` if the gateway gets the member's notifications about changes of lists. The catalog then keeps a
    /// list until the member reports a change.
    pub(super) is_watched: bool,
}

/// A member as the catalog uses it.
pub(super) struct CatalogMember {
    pub(super) source: Arc<dyn ListSource>,
    /// `true` if a list without this member is an error.
    pub(super) is_required: bool,
}

/// The merged lists of all members.
pub(super) struct Catalog;

impl Catalog {
    /// Creates the catalog. `members` has the same order as in `names`. The catalog calls `on_change` if a
    /// list that it has returned has become outdated without a notification of the member: because the list of
    /// a missing member has arrived, or because a new copy differs from the old one.
    pub(super) fn new(
        names: Arc<EndpointNames>,
        members: Vec<CatalogMember>,
        options: CatalogOptions,
        on_change: impl Fn(ListKind) + Send + Sync + 'static,
    ) -> Self;

    /// Returns the merged list for a client that uses `revision`.
    ///
    /// # Errors
    /// A required member is missing.
    pub(super) async fn list(&self, kind: ListKind, revision: Revision) -> Result<Listing, MissingMember>;

    /// Returns the member that owns the tool or prompt with the public name `public`, and the member's own
    /// name. Returns `None` for unknown, hidden and withheld names. Needs no list if names are prefixed or if
    /// there is only one member.
    pub(super) async fn owner_of_name(&self, kind: ListKind, public: &str) -> Option<(usize, String)>;

    /// Returns the member that owns the resource. Searches the lists of resources, then the resource templates.
    pub(super) async fn owner_of_uri(&self, uri: &str) -> Option<usize>;

    /// Marks the lists of a member as outdated. Call this method when the member reports a change (a change of
    /// resources also concerns the templates).
    pub(super) fn invalidate(&self, member: usize, kind: ListKind);

    /// Marks all lists of a member as outdated. Call this method when the member has connected again.
    pub(super) fn invalidate_member(&self, member: usize);

    /// Returns the number of items in the last list of a member, if the member has sent this list.
    pub(super) fn count(&self, member: usize, kind: ListKind) -> Option<usize>;

    /// Returns the items that the endpoint does not offer, according to the last lists of the members.
    pub(super) fn withheld(&self) -> Vec<(ListKind, WithheldItem)>;
}

/// A merged list.
pub(super) struct Listing {
    /// The indexes of the members that are missing in the list.
    pub(super) missing: Vec<usize>,
    /// Time and scope for which clients may cache the list.
    pub(super) cache: CacheHint,
}

impl Listing {
    /// Returns all items with their owners.
    pub(super) fn entries(&self) -> impl Iterator<Item = &MergedEntry>;

    /// Appends a page as the result of a list request, with `_meta` that names the missing members.
    ///
    /// # Errors
    /// The cursor is invalid (-32602).
    pub(super) fn write_page(
        &self,
        output: &mut Vec<u8>,
        results: &ResultWriter,
        cursor: Option<&str>,
    ) -> Result<(), Error>;
}

/// The error for a list in which a required member is missing.
pub(super) struct MissingMember {
    /// The index of the member.
    pub(super) member: usize,
    pub(super) name: MemberName,
}

impl From<MissingMember> for Error { /* -32603 with data {"server": name} */ }
