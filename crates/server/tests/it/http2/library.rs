//! An HTTP/2 client based on the crate `h2`, in virtual time.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest, handshake};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use thruway_testkit::test_server::{TestClient, TestServer};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};

/// Both ends of the connection, and the pipe between them.
pub(crate) struct H2Client {
    client: TestClient,
    far: DuplexStream,
    connection: Option<Connection<DuplexStream>>,
    send: SendRequest<Bytes>,
}

impl H2Client {
    pub(crate) fn connect(scene: &TestServer) -> Self {
        Self::over(scene.connect_detecting_protocol())
    }

    /// Connects while the server already has the maximum number of connections.
    pub(crate) fn connect_over_limit(scene: &TestServer) -> Self {
        Self::over(scene.connect_detecting_protocol_over_limit())
    }

    fn over(client: TestClient) -> Self {
        let (near, far) = duplex(PIPE_BYTES);
        let Poll::Ready(Ok((send, connection))) = poll(&mut pin!(handshake(near))) else {
            panic!("the client handshake should not wait for the server")
        };
        let mut library = Self { client, far, connection: Some(connection), send };
        library.run();
        library
    }

    /// Polls both ends and moves bytes between them until nothing changes.
    pub(crate) fn run(&mut self) {
        loop {
            self.poll_connection();
            let mut bytes = vec![0; PIPE_BYTES];
            let mut buffer = ReadBuf::new(&mut bytes);
            let has_read = Pin::new(&mut self.far).poll_read(&mut context(), &mut buffer).is_ready();
            let to_server = buffer.filled().to_vec();
            if has_read && to_server.is_empty() {
                self.client.finish();
                return;
            }
            if !to_server.is_empty() {
                self.client.send(&to_server);
            }
            let to_client = self.client.received_bytes();
            if !to_client.is_empty() {
                let written = Pin::new(&mut self.far).poll_write(&mut context(), &to_client);
                match written {
                    Poll::Ready(Ok(length)) => assert_eq!(length, to_client.len()),
                    // The client has closed the connection.
                    Poll::Ready(Err(_)) => return,
                    Poll::Pending => panic!("the pipe should have space for {} bytes", to_client.len()),
                }
            }
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
        }
    }

    fn poll_connection(&mut self) {
        if let Some(connection) = &mut self.connection
            && poll(connection).is_ready()
        {
            self.connection = None;
        }
    }

    /// Begins a request.
    pub(crate) fn begin(
        &mut self,
        request: Request<()>,
        is_all: bool,
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let mut send = self.send.clone();
        assert!(matches!(send.poll_ready(&mut context()), Poll::Ready(Ok(()))));
        let begun = send.send_request(request, is_all).unwrap();
        self.run();
        begun
    }

    /// Sends a GET and returns the complete response.
    pub(crate) fn get(&mut self, path: &str) -> (Response<()>, String, HeaderMap) {
        let (response, _) = self.begin(get(path), true);
        self.answer(response)
    }

    /// Returns the complete response.
    pub(crate) fn answer(&mut self, mut response: ResponseFuture) -> (Response<()>, String, HeaderMap) {
        let (head, mut content) = self.now(&mut response).unwrap().into_parts();
        let mut all = Vec::new();
        while let Some(data) = self.now_with(|cx| content.poll_data(cx)) {
            let data = data.unwrap();
            content.flow_control().release_capacity(data.len()).unwrap();
            all.extend_from_slice(&data);
            self.run();
        }
        let trailers = self.now_with(|cx| content.poll_trailers(cx)).unwrap().unwrap_or_default();
        (Response::from_parts(head, ()), String::from_utf8(all).unwrap(), trailers)
    }

    /// Returns the output of a future that must be ready now.
    pub(crate) fn now<F: Future + Unpin>(&mut self, future: &mut F) -> F::Output {
        self.now_with(|cx| Pin::new(&mut *future).poll(cx))
    }

    pub(crate) fn now_with<R>(&mut self, mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> R {
        self.run();
        match poll(&mut context()) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("the future should be ready"),
        }
    }

    /// Returns `true` if the future is still pending.
    pub(crate) fn waits<F: Future + Unpin>(&mut self, future: &mut F) -> bool {
        self.run();
        poll(future).is_pending()
    }

    /// Reads the available body without releasing flow-control capacity, and returns its length.
    pub(crate) fn taken(&mut self, content: &mut RecvStream) -> usize {
        let mut taken = 0;
        self.run();
        while let Poll::Ready(Some(Ok(data))) = content.poll_data(&mut context()) {
            taken += data.len();
        }
        taken
    }

    /// Returns `true` if the connection has ended.
    pub(crate) fn is_over(&mut self) -> bool {
        self.run();
        self.connection.is_none()
    }

    /// Returns the server's end.
    pub(crate) fn server(&mut self) -> &mut TestClient {
        &mut self.client
    }
}

pub(crate) fn get(path: &str) -> Request<()> {
    Request::get(format!("http://a.example{path}")).body(()).unwrap()
}

pub(crate) fn post(path: &str) -> Request<()> {
    Request::post(format!("http://a.example{path}")).body(()).unwrap()
}

/// Sends as much of `data` as the server's windows allow, and returns the number of bytes sent.
pub(crate) fn send_some(library: &mut H2Client, to: &mut SendStream<Bytes>, mut data: Bytes) -> usize {
    let length = data.len();
    loop {
        library.run();
        to.reserve_capacity(data.len());
        let capacity = to.capacity().min(data.len());
        if capacity == 0 {
            return length - data.len();
        }
        to.send_data(data.split_to(capacity), false).unwrap();
    }
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut context())
}

/// Capacity of the pipe, which is larger than any data that a test sends at once.
const PIPE_BYTES: usize = 8 << 20;
