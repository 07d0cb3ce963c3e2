"""Models for others: release folders by `io`, and ONNX by `onnx`."""
