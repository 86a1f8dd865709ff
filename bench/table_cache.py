def table(results):
    return str(results["server"])
