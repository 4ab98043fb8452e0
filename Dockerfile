# docker build -t leapdecode .
# docker run -p 8000:8000 -v /path/to/model:/model leapdecode -m /model
FROM python:3.11-slim
WORKDIR /opt/leapdecode
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
COPY leapdecode leapdecode
COPY pair pair
RUN pip install --no-cache-dir -c constraints.txt ./pair ".[serve,gguf]"
RUN useradd --create-home served
USER served
EXPOSE 8000
ENTRYPOINT ["leapdecode", "serve", "--host", "0.0.0.0"]
