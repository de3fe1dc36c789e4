//! How a method of the generated trait is made of a method of the service.

/// One call of the service. `request`: the method sees the whole request (deadline, metadata); `inner`: the message
/// alone; `direct`: the whole request, and the method makes the response itself (it watches its delivery); `sync`: it
/// does not wait; `heard`: neither, and it sees the whole request. Among several nodes a call goes where it belongs.
macro_rules! call {
    ($way:ident $self:ident $request:ident $method:ident) => {
        match &$self.node.cluster {
            None => call!(@ $way $self $request $method),
            Some(cluster) => {
                // In a box: a node without others must not carry its size about.
                let here = routed(&$self.node, cluster, $request, |request| async move {
                    call!(@ $way $self request $method)
                });
                Box::pin(here).await
            }
        }
    };
    (@ direct $self:ident $request:ident $method:ident) => {
        $self.$method($request).await
    };
    (@ request $self:ident $request:ident $method:ident) => {
        $self.$method($request).await.map(Response::new)
    };
    (@ inner $self:ident $request:ident $method:ident) => {
        $self.$method($request.into_inner()).await.map(Response::new)
    };
    (@ heard $self:ident $request:ident $method:ident) => {
        $self.$method($request).map(Response::new)
    };
    (@ sync $self:ident $request:ident $method:ident) => {
        $self.$method($request.into_inner()).map(Response::new)
    };
    (@ syncok $self:ident $request:ident $method:ident) => {
        Ok(Response::new($self.$method($request.into_inner())))
    };
    (@ plain $self:ident $request:ident $method:ident) => {{
        let _ = $request;
        Ok(Response::new($self.$method()))
    }};
}
pub(super) use call;
