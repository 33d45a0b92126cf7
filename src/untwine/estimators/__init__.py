"""What metrics share: checks, information, trees, classifiers, pretrained networks."""
