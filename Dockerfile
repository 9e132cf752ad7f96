# docker build --tag genericjob .
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY genericjob genericjob
RUN pip wheel --no-cache-dir --disable-pip-version-check --constraint constraints.txt --wheel-dir /wheels .

FROM python:${PYTHON}-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --disable-pip-version-check --no-index /wheels/*.whl
USER 65532:65532
ENTRYPOINT ["genericjob"]
CMD ["controller"]
