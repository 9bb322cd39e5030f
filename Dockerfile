# docker build -t sightline .
# docker run -p 8080:8080 -p 8189:8189/udp sightline
#
# Outside loopback the gateway starts only with authentication, or with an explicit --insecure for a closed network:
#   docker run ... sightline serve --listen 0.0.0.0:8080 --udp-port 8189 --insecure
# Behind NAT add --public-ip ADDRESS, so that browsers are told where to send. Keys come in by files or SIGHTLINE_...
# variables at run time; nothing secret is ever part of the image.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY scripts/ scripts/
RUN scripts/install build
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN scripts/build /out

FROM debian:bookworm-slim
COPY scripts/install /setup/install
COPY scripts/lib/ /setup/lib/
RUN /setup/install runtime engines && rm -rf /setup /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/sightline sightline
COPY --from=build /out/ /usr/local/bin/
ENV SIGHTLINE_DATA_DIR=/var/lib/sightline/conversations
VOLUME /var/lib/sightline
USER 10001
WORKDIR /var/lib/sightline
# 8080: page, signalling, agents (HTTP, WebSocket). 8189: media of all sessions (UDP).
EXPOSE 8080/tcp 8189/udp
# bash speaks HTTP by itself; the image needs no curl.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /healthz HTTP/1.0\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["sightline"]
CMD ["serve", "--listen", "0.0.0.0:8080", "--udp-port", "8189"]
