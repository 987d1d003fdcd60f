# The scheduler in a file system of its own: Python, the locked packages and the shared libraries
# they load; no shell, no package manager, nothing writable.
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=0.1.0 .
#   docker buildx build --target slim .        without the solver for batches, about 120 MiB less
#
# Each step is shipping/image/build.py, or shipping/page.py for the web page; the tests run them as
# well, without Docker.
ARG PYTHON=3.13
# python:3.13-slim (3.13.15, trixie) for all machines; a new version has a new digest.
ARG DIGEST=sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM python:${PYTHON}-slim@${DIGEST} AS build
WORKDIR /src
COPY shipping/locks/build.lock shipping/locks/
RUN pip install --no-cache-dir --require-hashes --only-binary=:all: -r shipping/locks/build.lock
COPY shipping/image/build.py shipping/image/
RUN python shipping/image/build.py interpreter /image
COPY shipping/locks/run.lock shipping/locks/
RUN python shipping/image/build.py packages /image shipping/locks/run.lock

FROM build AS page
COPY shipping/locks/node.lock shipping/locks/
COPY shipping/page.py shipping/
COPY web/ web/
RUN python shipping/page.py

FROM page AS build-slim
COPY pyproject.toml README.md LICENSE ./
COPY scheduler/ scheduler/
COPY sandbox/ sandbox/
RUN python shipping/image/build.py program /image . \
 && python shipping/image/build.py finish /image

FROM page AS build-full
COPY shipping/locks/full.lock shipping/locks/
RUN python shipping/image/build.py packages /image shipping/locks/full.lock
COPY pyproject.toml README.md LICENSE ./
COPY scheduler/ scheduler/
COPY sandbox/ sandbox/
RUN python shipping/image/build.py program /image . \
 && python shipping/image/build.py finish /image

FROM scratch AS bare
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="equipoise" \
      org.opencontainers.image.description="A secondary scheduler for Kubernetes that explains its decisions" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.vendor="The Equipoise authors" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
ENV PATH=/usr/local/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONSAFEPATH=1
WORKDIR /
USER 65532:65532
EXPOSE 10259
STOPSIGNAL SIGTERM
ENTRYPOINT ["equipoise"]
CMD ["run"]

FROM bare AS slim
COPY --from=build-slim /image /

FROM bare AS full
COPY --from=build-full /image /
