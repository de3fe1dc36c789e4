"""Transcript harness: plays caller and worker over raw gRPC and compares what a server answers."""
