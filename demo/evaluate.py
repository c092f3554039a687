"""How good the demo's private model is beside the majority class and a model without privacy: its rows are public."""

from pathlib import Path

from colonnade.cli.demo import judge_model

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    print(f"The private model is {judge_model(HERE, HERE / 'model.json')}.")
