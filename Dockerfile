# An image of writ: one static binary, and the two programs that it starts, git
# and bubblewrap. docs/containers.md says how to run it and what a sandbox needs.
#
#   make image                      (or docker build --build-arg VERSION=v1.2.3 .)

FROM golang:1.26.5-trixie AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# The Makefile knows the flags. Without git's data it takes the number of
# kernel/VERSION, so a release gives its own.
ARG VERSION
RUN make build ${VERSION:+VERSION="$VERSION"} && bin/writ version

FROM debian:trixie-20260713-slim
# tini is process 1: it takes in what outlives its parent, and passes signals on.
RUN apt-get update \
 && apt-get install -y --no-install-recommends bubblewrap ca-certificates git tini \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 writ \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/writ --shell /usr/sbin/nologin writ \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/writ
COPY --from=build /src/bin/writ /usr/local/bin/writ
COPY LICENSE /usr/share/doc/writ/LICENSE
ENV HOME=/var/lib/writ
# A number, so that a cluster can see that it isn't root.
USER 10001:10001
WORKDIR /var/lib/writ
VOLUME /var/lib/writ
EXPOSE 8714
# It asks the process alone: a forge that is away is no reason for a restart.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 \
  CMD ["writ", "healthz", "--config", "/etc/writ/writ.yaml"]
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/writ"]
CMD ["serve", "--config", "/etc/writ/writ.yaml"]
