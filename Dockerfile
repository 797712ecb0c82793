# The images of dokimos: the server (the default) and the MCP server.
#
#   docker build -t dokimos-server:0.2.0 .
#   docker build --target mcp-server -t dokimos-mcp-server:0.2.0 .
#
# Both run on linux/amd64 and linux/arm64 (docker buildx build --platform linux/amd64,linux/arm64 ...). The web
# interface is committed as built files, so nothing here needs Node.

ARG PYTHON_VERSION=3.13


FROM python:${PYTHON_VERSION}-slim-trixie AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /dist . && cp constraints.txt /dist/


FROM python:${PYTHON_VERSION}-slim-trixie AS base
# The image of Python comes without compiled modules, and a read-only root would have them compiled at each
# start, and at each check of the health.
RUN python -m compileall -q -x "bad_coding|badsyntax|site-packages" /usr/local/lib/python3* \
    && groupadd --gid 10001 dokimos \
    && useradd --uid 10001 --gid 10001 --create-home --home-dir /home/dokimos --shell /usr/sbin/nologin dokimos \
    && install -d -o 10001 -g 10001 -m 0700 /home/dokimos/.dokimos \
    && install -d -o 10001 -g 10001 -m 0750 /data \
    && python -m venv --without-pip /opt/dokimos
ENV PATH=/opt/dokimos/bin:$PATH \
    HOME=/home/dokimos


FROM base AS mcp-server
ARG MCP_EXTRAS=agents-anthropic,agents-openai,nlp,prices
RUN --mount=type=bind,from=build,source=/dist,target=/dist \
    pip --python /opt/dokimos/bin/python install --no-cache-dir -c /dist/constraints.txt "$(ls /dist/*.whl)[${MCP_EXTRAS}]"
ARG VERSION=0.2.0
ARG REVISION
ARG SOURCE
LABEL org.opencontainers.image.title="dokimos MCP server" \
      org.opencontainers.image.description="Evaluations of LLM applications as tools of an agent" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
ENV PYTHONDONTWRITEBYTECODE=1
WORKDIR /home/dokimos
USER 10001:10001
# Data sets are mounted at /data, read-only; what is kept is in /home/dokimos/.dokimos.
ENTRYPOINT ["dokimos", "mcp", "--allow", "/data"]


FROM base AS server
ARG SERVER_EXTRAS=encryption,grpc,oidc,parquet,prices,server
RUN --mount=type=bind,from=build,source=/dist,target=/dist \
    pip --python /opt/dokimos/bin/python install --no-cache-dir -c /dist/constraints.txt "$(ls /dist/*.whl)[${SERVER_EXTRAS}]"
ARG VERSION=0.2.0
ARG REVISION
ARG SOURCE
LABEL org.opencontainers.image.title="dokimos server" \
      org.opencontainers.image.description="Runs, datasets, traces and the gate of LLM evaluations, for a team" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
# Uploads may be larger than the memory, so they are not written to a /tmp that is in memory.
ENV DOKIMOS_DATA_DIR=/data \
    TMPDIR=/data \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /data
USER 10001:10001
VOLUME ["/data"]
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import http.client, os; server = http.client.HTTPConnection('127.0.0.1', int(os.environ.get('SERVER_PORT') or 8080), timeout=4); server.request('GET', '/actuator/health'); raise SystemExit(server.getresponse().status != 200)"]
ENTRYPOINT ["dokimos"]
CMD ["serve"]
