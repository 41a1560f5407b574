"""Finds the settings of HAKMEM that suit a program best: a bandit chooses what to try, further runs judge."""
